"""What `import conch` brings, and what it leaves until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import conch
from conch.python_child import environment

HEAVY = ("conch.bus", "conch.cycle", "conch.experience", "conch.library", "nats", "structlog", "sqlite3")


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_conch_imports_neither_bus_nor_store_nor_agent() -> None:
    """A file of rules imports it in a process of its own: what it does not use must not cost it a start."""
    loaded = python("import sys, conch; print(*sys.modules)").split()

    assert [name for name in HEAVY if name in loaded] == []


def test_every_public_name_is_there_in_a_fresh_process() -> None:
    """Also those that are imported when first used."""
    assert python("import conch; print([hasattr(conch, name) for name in conch.__all__].count(False))") == "0\n"


def test_consumer_and_follow_are_the_functions_whatever_was_imported_before() -> None:
    """`conch.consumer` is a package too, and `conch.consumer.follow` a module."""
    before = "import conch.consumer.runtime.loop, conch.consumer.follow"
    code = f"{before}; from conch import consumer, follow; print(consumer, follow)"

    assert python(code).count("<function") == 2


def test_the_names_for_type_checkers_are_the_names_at_run_time() -> None:
    """One list is read by tools, the other by the import system."""
    tree = ast.parse(Path(conch.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    typed = {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert typed == conch._WHERE
    assert set(typed) | {"ConchError", "consumer", "follow", "rule", "service"} == set(conch.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As with every module."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        conch.nonsense  # type: ignore[attr-defined]  # noqa: B018

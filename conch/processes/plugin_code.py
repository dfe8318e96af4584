"""Loading code of plug-ins from their files."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from conch.errors import ContractError
from conch.files import read_plain

MOST_BYTES = 4 * 2**20
"""Largest file of plug-ins, in bytes."""


def text_of(file: str) -> str:
    """The text of a plug-in file. Raises OSError, and ContractError for what is no Python file."""
    if not file.endswith(".py"):
        raise ContractError("it is no Python file (its name must end in .py)")
    return importlib.util.decode_source(read_plain(Path(file), MOST_BYTES))


def module_of(path: Path, text: str) -> ModuleType:
    """The file as a module, imported once. Compiled code beside it is not used: its freshness is judged by seconds
    only. Exceptions of the import are not caught."""
    name = f"conch_rules_{hashlib.sha256(f'{path}:{text}'.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - a plug-in is code
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]

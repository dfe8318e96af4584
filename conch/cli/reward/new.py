"""`conch reward new`: write a small package with an example rule, to be changed."""

from __future__ import annotations

import importlib.util
import keyword
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, say
from conch.cli.options import COMMON
from conch.config import Settings
from conch.consumer.plugins import discover, reserved
from conch.errors import ConchError, UsageError
from conch.rules import NAME

TEMPLATE = Path(__file__).parent / "template"
"""A package that works as it is."""
PLACEHOLDER = "example_rule"
"""The rule's name in it, in files and in their names."""


def new(
    name: str,
    directory: Annotated[Path | None, Parameter(help="Where it is written; default: ./NAME.")] = None,
    /,
    *,
    common: CommonOptions = COMMON,
) -> None:
    """Write a rule as a package: the rule in ten lines, its test, recorded acts, what installs it.

    It works as it is: with `conch run --rules`, and installed.

    Parameters
    ----------
    name
        The rule's name, which is its component's: small letters, digits and `_`.
    """
    place = (directory or Path(name)).expanduser().absolute()
    _refuse_name(name)
    if os.path.lexists(place):
        raise UsageError(f"{place} is there already: name another directory")
    _refuse_taken(name, common.settings())
    try:
        _write(name, place)
    except OSError as error:
        raise ConchError(f"{place} cannot be written ({error.strerror}): name another directory") from error
    if common.json:
        from conch.views import RuleWritten

        emit(RuleWritten(name=name, directory=str(place)))
        return
    file = place / f"{name}.py"
    say(f"made {place}: the rule is in {file.name}")
    say(f"  conch reward test {file} --replay {place / 'actions.jsonl'}")
    say(f"  conch run --rules {file}")


def _refuse_name(name: str) -> None:
    """Raises UsageError for what can be no rule's name, or no function's."""
    if not NAME.match(name) or not name.isidentifier():
        raise UsageError(f"no rule can be called {name!r}: small letters, digits and '_', at most 48, a letter first")
    if keyword.iskeyword(name):
        raise UsageError(f"no rule can be called {name!r}: it is a word of Python")
    if name.startswith("test_"):
        raise UsageError(f"no rule can be called {name!r}: pytest would take it for a test; leave out the test_")


def _refuse_taken(name: str, settings: Settings) -> None:
    """Raises UsageError for the name of a component, consumer or module that there is."""
    taken = reserved(settings)
    found = {plugin.name: plugin.origin for plugin in discover((), taken=taken).plugins}
    if name in taken:
        raise UsageError(f"the name {name} is taken, by what comes with Conch or by conch.yaml: choose another one")
    if name in found:
        raise UsageError(f"the name {name} is taken, by {found[name]}: choose another one")
    if name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None:
        raise UsageError(f"there is a Python module {name} already, which the rule's would hide: choose another name")


def _write(name: str, place: Path) -> None:
    """The package, whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=place.parent))
    try:
        for file in sorted(TEMPLATE.iterdir()):
            if file.is_file():
                text = file.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
                (beside / file.name.replace(PLACEHOLDER, name)).write_text(text, encoding="utf-8")
        beside.chmod(0o755)
        beside.rename(place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise

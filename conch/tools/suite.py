"""Makes a check's command use the installed test runner, never one from the workspace."""

from __future__ import annotations

import re
import shlex

_RUNNER = """
import os, sys
installed = sys.path.index(os.path.dirname(os.__file__))
before, sys.path[:installed] = sys.path[:installed], []
import importlib, runpy
name = sys.argv.pop(1)
try:
    importlib.import_module(name)
except ModuleNotFoundError as error:
    if error.name != name:
        raise
    sys.exit(f"{sys.executable}: No module named {name} where Python is installed")
sys.path[:0] = [os.getcwd() if place == "" else place for place in before]
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""
"""Does what `python -m NAME` does, but NAME and all its imports come from the installation. `os` and `sys` are part of
the interpreter itself. Afterwards the import path is as usual."""

_COMMAND = re.compile(
    r"""
    '[^']*' | "(?:\\.|[^"\\])*" | \\. |                                # quoted: left alone
    (?<![\w./-]) (?P<python> (?:[\w.-]*/[\w./-]*)? python[\d.]* )
    (?P<options> (?: \s+ -(?: [WX] \s* [\w.:=,]+ | [bBdEOqsuvx]+ ) )* )
    \s+ -m \s+ (?P<name> unittest | pytest ) (?= \s | $ | [;&|)<>] )
    """,
    re.VERBOSE | re.DOTALL,
)


def guarded(command: str) -> str:
    """`command`, a line for the shell, in which each `python … -m unittest` or `-m pytest` uses the installed runner.

    A workspace file with that name, or with the name of a module that it imports, would replace it. Text in quotes, and
    calls in a script or a Makefile, are left unchanged.
    """
    return _COMMAND.sub(_guarded, command)


def _guarded(found: re.Match[str]) -> str:
    if found["name"] is None:
        return found[0]
    return f"{found['python']}{found['options']} -c {shlex.quote(_RUNNER)} {found['name']}"

"""Checks that an agent may not propose, by their form alone. Pure."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from conch_schemas import Check, FileCheck

_SYSTEM: Final = ("/usr/", "/bin/")
"""Directories of programs, which a command may name."""
_PIECES: Final = re.compile(r"[\s'\"=:,<>|&;()`{}]+")
"""Between two pieces of a command that may be paths."""
_OPERATOR: Final = re.compile(r"(\|\||&&|[;\n|&])")
_SUCCEEDS: Final = frozenset({"true", ":", "echo", "printf", "exit 0"})
_FAILS: Final = frozenset({"false", *(f"exit {status}" for status in range(1, 256))})


def path_outside(check: Check) -> str | None:
    """The first path outside of the workspace that the check names; None where it names none.

    A path of a command is one in its text: what the shell would make of a variable is not known here. The sandbox holds
    the command in the workspace all the same.
    """
    if isinstance(check, FileCheck):
        return check.path if _leads_out(check.path, ()) else None
    pieces = _PIECES.split(check.command)
    return next((piece for piece in pieces if piece != "/dev/null" and _leads_out(piece, _SYSTEM)), None)


def objection_to(check: Check) -> str | None:
    """Why no workspace can decide this check, in one sentence; None where one can."""
    if isinstance(check, FileCheck):
        return _objection_to_file(check)
    if not check.command.strip():
        return "a check needs a command"
    if (last := _constant(check.command)) is not None:
        return f"the command ends with {last!r}, so that its status is the same in every workspace"
    return None


def _objection_to_file(check: FileCheck) -> str | None:
    if not check.path.strip("./ "):
        return "a check of a file needs its path"
    if check.equals is None and not check.contains:
        return "a check of a file needs contains or equals: an empty file would do"
    if any(not text.strip() for text in (*check.contains, *([] if check.equals is None else [check.equals]))):
        return "a text of the check is empty: every file has that"
    return None


def _leads_out(path: str, allowed: tuple[str, ...]) -> bool:
    plain = posixpath.normpath(path) if path else ""
    if plain.startswith("/"):
        return not plain.startswith(allowed) if allowed else True
    return plain.startswith(("~", "../")) or plain == ".." or "\0" in path


def _constant(command: str) -> str | None:
    """The last simple command, where the exit status of the whole is its own and it has always the same."""
    parts = [part.strip() for part in _OPERATOR.split(command.strip().rstrip(";"))]
    operator, last = (parts[-2] if len(parts) > 1 else ";"), " ".join(parts[-1].removeprefix("!").split())
    word = last if last.startswith("exit ") else last.split(" ")[0]
    succeeds, fails = word in _SUCCEEDS, word in _FAILS
    if (succeeds and operator != "&&") or (fails and operator != "||"):
        return last
    return None

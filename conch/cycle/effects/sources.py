"""What an act read, where its output comes from, and what it was about, by its tool and operation. Pure."""

from __future__ import annotations

import posixpath
from typing import Literal

from conch.actions import effect_of
from conch.cycle.effects.commands import command_target
from conch.cycle.effects.lines import hits_of
from conch.tools import is_output
from conch_schemas import Action

OutputSource = Literal["file", "hits", "world", "program", "words"]
"""`file`: lines of one workspace file. `hits`: lines that a search found. `world`: what is outside the workspace.
`program`: another program's output, or a listing. `words`: a tool's words about its own act, or the agent's notes."""

_BUILTIN: dict[str, OutputSource] = {
    "filesystem.read": "file",
    "filesystem.grep": "hits",
    "filesystem.list": "program",
    "filesystem.glob": "program",
    "shell": "program",
    "git": "program",
    "filesystem": "words",
    "notes": "words",
    "reply": "words",
    "device": "words",
}
"""By skill, else by tool."""
_IN_PROCESS = frozenset({"filesystem", "notes", "reply", "device"})
"""Built-in tools whose operations change nothing but what they declare: they run no program."""
_NAVIGATION = frozenset({"read", "list", "grep", "glob", "exists", "info"})


def output_source(action: Action) -> OutputSource:
    """Where the output of an act comes from. Of a tool that is not built in, `world` where it declares that. What is
    read of a kept output is a program's output still."""
    if action.tool == "filesystem" and is_output(str(action.args.get("path", ""))):
        return "program"
    known = _BUILTIN.get(action.skill) or _BUILTIN.get(action.tool or "")
    return known or ("world" if effect_of(action) == "world" else "program")


def may_change(action: Action) -> bool:
    """Whether the workspace is compared before and after the act: not for what reads inside the agent's process."""
    if action.kind != "TOOL" or not action.valid:
        return False
    return action.tool not in _IN_PROCESS or effect_of(action) == "workspace"


def target_of(action: Action) -> str | None:
    """The path that the act was about, or the program and the file of a command."""
    if action.kind != "TOOL" or action.tool is None:
        return None
    if isinstance(command := action.args.get("command"), str) and action.tool == "shell":
        return command_target(command)
    if action.tool == "git":
        return command_target(f"git {action.args.get('operation', '')} {action.args.get('args', '')}")
    path = action.args.get("path")
    return normal_path(path) if isinstance(path, str) else None


def navigated_to(action: Action) -> str | None:
    """The path that a reading, a listing or a search was at; None for other acts."""
    path = action.args.get("path")
    navigates = action.tool == "filesystem" and action.args.get("operation") in _NAVIGATION
    return normal_path(path) if navigates and isinstance(path, str) else None


def opened_by(action: Action, output: str) -> int:
    """Notes that were recalled, or search hits whose lines were shown."""
    if action.skill == "notes.recall":
        return sum(line.startswith("- ") for line in output.splitlines())
    return sum(map(len, hits_of(output).values())) if action.skill == "filesystem.grep" else 0


def normal_path(path: str) -> str:
    """The path without `.` and doubled slashes; `.` is the workspace."""
    return posixpath.normpath(path or ".")[:1000]

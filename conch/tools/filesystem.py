"""The tool `filesystem`: works on files of the workspace inside this process."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from conch.actions import BUILTIN_EFFECTS
from conch.errors import ToolError
from conch.tools.declare import ToolContext, ToolResult, tool
from conch.tools.search import MAX_RESULTS, glob, grep, shown_name
from conch.tools.workspace import MissingError, Workspace, WorkspaceEntry

Operation = Literal["read", "write", "list", "exists", "info", "delete", "mkdir", "grep", "glob"]


@tool(effects=BUILTIN_EFFECTS["filesystem"])
async def filesystem(
    context: ToolContext, operation: Operation, path: str, content: str | None = None, pattern: str | None = None
) -> ToolResult | str:
    """Works on files of the workspace.

    path: relative to the workspace; . is the workspace itself
    content: for write: the file's whole text
    pattern: for grep: a POSIX extended regular expression, e.g. [0-9]+; for glob: e.g. **/*.py
    """
    workspace = Workspace(context.workspace, context.settings.file_mib * 2**20)
    if operation == "write":
        return await asyncio.to_thread(_write, workspace, path, _given(content, "write", "content"))
    if operation == "grep":
        return await _grep(context, workspace, path, _given(pattern, "grep", "pattern"))
    if operation == "glob":
        found = await asyncio.to_thread(glob, workspace, path, _given(pattern, "glob", "pattern"))
        return _listed([shown_name(name) for name in found], "nothing has such a name")
    if operation in _QUICK:
        return _PLAIN[operation](workspace, path)
    return await asyncio.to_thread(_PLAIN[operation], workspace, path)


def _given(value: str | None, operation: str, name: str) -> str:
    if value is None:
        raise ToolError(f"{operation} needs {name}")
    return value


def _write(workspace: Workspace, path: str, content: str) -> str:
    return f"{workspace.write(path, content)} bytes written to {path}"


async def _grep(context: ToolContext, workspace: Workspace, path: str, pattern: str) -> ToolResult | str:
    timeout = context.settings.timeout
    try:
        found = await grep(workspace, path, pattern, context.sandbox, timeout)
    except TimeoutError:
        return ToolResult(status="timeout", error=f"the search took longer than {timeout:g} seconds")
    return _listed(found, "no line matches")


def _list(workspace: Workspace, path: str) -> str:
    return _listed([_shown(entry) for entry in workspace.entries(path)], "the directory is empty")


def _exists(workspace: Workspace, path: str) -> str:
    return "no" if workspace.stat(path) is None else "yes"


def _info(workspace: Workspace, path: str) -> str:
    found = workspace.stat(path)
    if found is None:
        raise MissingError(f"there is no {path}")
    changed = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="seconds")
    return f"{_kind(found)}, {found.st_size} bytes, mode {stat.filemode(found.st_mode)}, changed {changed}"


def _delete(workspace: Workspace, path: str) -> str:
    workspace.delete(path)
    return f"{path} deleted"


def _mkdir(workspace: Workspace, path: str) -> str:
    workspace.make_directory(path)
    return f"{path} is a directory"


_PLAIN: dict[str, Callable[[Workspace, str], str]] = {
    "read": Workspace.read,
    "list": _list,
    "exists": _exists,
    "info": _info,
    "delete": _delete,
    "mkdir": _mkdir,
}
_QUICK = {"exists", "info"}
"""One look at a file's status: a thread for it takes ten times as long."""


def _shown(entry: WorkspaceEntry) -> str:
    name = shown_name(entry.path)
    if stat.S_ISDIR(entry.stat.st_mode):
        return f"{name}/"
    return f"{name} ({_kind(entry.stat)})" if not stat.S_ISREG(entry.stat.st_mode) else name


def _kind(found: os.stat_result) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symbolic link"}
    return kinds.get(stat.S_IFMT(found.st_mode), "special file")


def _listed(lines: list[str], empty: str) -> str:
    if len(lines) >= MAX_RESULTS:
        return "\n".join([*lines[:MAX_RESULTS], f"[at most {MAX_RESULTS} are shown]"])
    return "\n".join(lines) or empty

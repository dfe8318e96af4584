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
from conch.tools.files.editing import NAMED_LINES, EditedText, EditRefusal, edited
from conch.tools.files.outputs import OUTPUTS, is_output, output_name
from conch.tools.files.reading import read_shown
from conch.tools.search import MAX_RESULTS, glob, grep, shown_name
from conch.tools.workspace import MissingError, Workspace, WorkspaceEntry

Operation = Literal["read", "write", "edit", "list", "exists", "info", "delete", "mkdir", "grep", "glob"]
_OF_OUTPUTS = ("read", "list", "exists", "info", "grep", "glob")
"""Operations on the outputs that are kept outside of the workspace."""


@tool(effects=BUILTIN_EFFECTS["filesystem"])
async def filesystem(
    context: ToolContext,
    operation: Operation,
    path: str,
    content: str | None = None,
    pattern: str | None = None,
    offset: int | None = None,
    lines: int | None = None,
    old: str | None = None,
    new: str | None = None,
    all: bool = False,
) -> ToolResult | str:
    """Works on files of the workspace.

    path: relative to the workspace; . is the workspace itself
    content: for write: the file's whole text
    pattern: for grep: a POSIX extended regular expression, e.g. [0-9]+; for glob: e.g. **/*.py
    offset: for read: the first line, from 1; the lines are then numbered
    lines: for read: most lines
    old: for edit: the exact text to replace, which stands in the file once
    new: for edit: the text in its place
    all: for edit: replace old wherever it stands
    """
    most = context.settings.file_mib * 2**20
    workspace, named, folder = Workspace(context.workspace, most), path, ""
    if is_output(path):
        (workspace, path), folder = _outputs(context, operation, path, most), f"{OUTPUTS}/"
    match operation:
        case "read":
            return await asyncio.to_thread(_read, workspace, path, named, offset, lines)
        case "write":
            return await asyncio.to_thread(_write, workspace, path, _given(content, "write", "content"))
        case "edit":
            texts = _given(old, "edit", "old"), _given(new, "edit", "new")
            return await asyncio.to_thread(_edit, workspace, path, *texts, everywhere=all)
        case "grep":
            return await _grep(context, workspace, path, _given(pattern, "grep", "pattern"), folder)
        case "glob":
            found = await asyncio.to_thread(glob, workspace, path, _given(pattern, "glob", "pattern"))
            return _listed([shown_name(name) for name in found], "nothing has such a name")
    if operation in _QUICK:
        return _PLAIN[operation](workspace, path)
    return await asyncio.to_thread(_PLAIN[operation], workspace, path)


def _outputs(context: ToolContext, operation: Operation, path: str, most: int) -> tuple[Workspace, str]:
    """The kept outputs as a workspace, and the path in it. Raises ToolError for a change of them."""
    if operation not in _OF_OUTPUTS:
        raise ToolError(f"{OUTPUTS} holds outputs of commands, which can be read and searched, and not be changed")
    if context.outputs is None or not context.outputs.is_dir():
        raise MissingError(f"there is no {path}: no output is kept")
    return Workspace(context.outputs, most), output_name(path)


def _given(value: str | None, operation: str, name: str) -> str:
    if value is None:
        raise ToolError(f"{operation} needs {name}")
    return value


def _read(workspace: Workspace, path: str, named: str, offset: int | None, lines: int | None) -> str:
    with workspace.opened(path) as (file, size):
        return read_shown(file, shown_name(named), size, offset, lines)


def _edit(workspace: Workspace, path: str, old: str, new: str, *, everywhere: bool) -> ToolResult | str:
    """Bytes that are no UTF-8 stay as they are. A refusal shows lines of the file as it is."""
    done: EditedText | None = None

    def changed(data: bytes) -> bytes:
        nonlocal done
        found = edited(data.decode(errors="surrogateescape"), old, new, everywhere=everywhere)
        if isinstance(found, EditRefusal):
            raise _RefusedError(found)
        done = found
        return found.text.encode(errors="surrogateescape")

    try:
        size = workspace.change(path, changed)
    except _RefusedError as refused:
        shown = refused.refusal.shown.encode(errors="surrogateescape").decode(errors="replace")
        return ToolResult(shown, "error", f"{path} is unchanged: {refused.refusal.why}")
    assert done is not None
    at = ", ".join(map(str, done.lines[:NAMED_LINES])) + (", …" if len(done.lines) > NAMED_LINES else "")
    places = "1 place" if len(done.lines) == 1 else f"{len(done.lines)} places"
    return f"{places} changed in {path}, at line {at}; it has {size} bytes now"


class _RefusedError(Exception):
    """An edit that is refused: it ends the change of the file."""

    def __init__(self, refusal: EditRefusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


def _write(workspace: Workspace, path: str, content: str) -> str:
    return f"{workspace.write(path, content)} bytes written to {path}"


async def _grep(context: ToolContext, workspace: Workspace, path: str, pattern: str, folder: str) -> ToolResult | str:
    """`folder`: stands before each path that is shown."""
    timeout = context.settings.timeout
    try:
        found = await grep(workspace, path, pattern, context.sandbox, timeout)
    except TimeoutError:
        return ToolResult(status="timeout", error=f"the search took longer than {timeout:g} seconds")
    return _listed([f"{folder}{line}" for line in found], "no line matches")


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

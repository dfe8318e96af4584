"""Bounded search in the workspace: names by glob pattern, lines by the program grep."""

from __future__ import annotations

import asyncio
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

from conch.errors import ToolError
from conch.text import safe_text
from conch.tools.isolation.sandbox import ProcessResult, Sandbox
from conch.tools.workspace import Workspace, WorkspaceEntry

MAX_PATTERN = 1_000
"""Most characters of a pattern."""

MAX_RESULTS = 500
"""Most files or lines returned."""

MAX_ENTRIES = 50_000
"""Most files and directories visited."""

MAX_SEARCHED_BYTES = 16 * 2**20
"""Most bytes of files searched for lines."""

SYNTAX = "a pattern is a POSIX extended regular expression: [0-9] or [[:digit:]], [[:space:]], \\w, \\b, (a|b), {2,3}"
"""Error text for a pattern in another dialect."""

_GREP = f'{{ grep -nabE -m {MAX_RESULTS} -e "$1"; echo "status=$?"; }} | cut -d: -f1,2'
"""Prints each line's number and offset, not the line: lines may be long."""

_HIT = re.compile(r"^(\d+):(\d+)$", re.MULTILINE)
_FOREIGN = re.compile(r"(\[\^?\]?(?:\[[:.=][^\]]*[:.=]\]|[^\]])*+\])|(\\[ac-rt-vx-zAC-RT-VX-Z0])|(\(\?)|\\.|.")
"""Bracket expressions, where a backslash is literal; escapes that POSIX does not have; groups with a question mark."""


def shown_name(name: str) -> str:
    """The name on one line, without terminal control characters. Most names are unchanged."""
    return safe_text(name).replace("\n", "�")


def glob(workspace: Workspace, path: str, pattern: str) -> list[str]:
    """Paths below `path`, relative to it, that match `pattern`: `*`, `?`, `[…]` within a name, `**` any names."""
    wanted = _names(pattern)
    found = []
    for entry in _entries(workspace, path):
        if _matches(entry.path.split("/"), wanted):
            found.append(entry.path)
        if len(found) >= MAX_RESULTS:
            break
    return found


async def grep(workspace: Workspace, path: str, pattern: str, sandbox: Sandbox, timeout: float) -> list[str]:
    """`path:line number:line` for the lines that match `pattern` in a file, or in the files below a directory.

    Files that cannot be read, or that have a NUL at their beginning, are skipped. The program grep does the matching,
    on its standard input alone: it opens no file, and has the limits of every program. Raises ToolError for a pattern
    that is not a POSIX extended regular expression or reaches a limit, and TimeoutError after `timeout` seconds.
    """
    _check(pattern)
    deadline = time.monotonic() + timeout
    texts = await asyncio.to_thread(_texts, workspace, path, deadline)
    with tempfile.TemporaryFile() as whole, tempfile.TemporaryDirectory(prefix="conch-") as nothing:
        whole.writelines(texts.values())
        whole.seek(0)
        # Where confinement is impossible programs are refused; grep, which only reads its standard input, may run.
        able = sandbox if await sandbox.detect_aside() is None else sandbox.unconfined()
        left = max(0.01, deadline - time.monotonic())
        found = await able.run(
            ["/bin/sh", "-c", _GREP, "sh", pattern], workspace=Path(nothing), timeout=left, stdin=whole
        )
    if found.status == "timeout":
        raise TimeoutError
    last = found.output.rstrip("\n").rsplit("\n", 1)[-1]
    if found.status != "success" or last not in ("status=0", "status=1"):
        raise ToolError(f"the pattern is no extended regular expression, or too large a one: {_reason(found)}")
    hits = [tuple(map(int, hit)) for hit in _HIT.findall(found.output)]
    return list(_lines(texts, hits))


def _check(pattern: str) -> None:
    """Refuse constructs of other dialects, which grep would interpret differently."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"a pattern has at most {MAX_PATTERN} characters")
    if "\n" in pattern or "\0" in pattern:
        raise ToolError("a pattern is one line of text")
    for brackets, escape, group in _FOREIGN.findall(pattern):
        if odd := escape or group or ("\\" if "\\" in brackets else ""):
            raise ToolError(f"the pattern has {odd}{' in [...]' if brackets else ''}, and {SYNTAX}")


def _reason(found: ProcessResult) -> str:
    said = [line.partition(": ")[2] for line in found.output.splitlines() if line.startswith("grep: ")]
    return said[-1] if said else (found.error or "grep failed")


def _lines(texts: dict[str, bytes], hits: list[tuple[int, ...]]) -> Iterator[str]:
    """The lines at these numbers (from 1) and offsets in all the texts together, both ascending."""
    waiting = iter(hits)
    hit = next(waiting, None)
    lines = size = 0
    for name, text in texts.items():
        end = size + len(text)
        while hit is not None and hit[1] < end:
            number, start = hit[0] - lines, hit[1] - size
            line = text[start : text.index(b"\n", start)].decode(errors="replace")
            yield f"{shown_name(name)}:{number}:{line}"
            hit = next(waiting, None)
        lines, size = lines + text.count(b"\n"), end


def _texts(workspace: Workspace, path: str, deadline: float) -> dict[str, bytes]:
    """The texts to search, by path: each ends with a line end."""
    left, found = MAX_SEARCHED_BYTES, {}
    for name in _files(workspace, path):
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            data = workspace.read_bytes(name)
        except ToolError:
            if name == path:
                raise
            continue
        left -= len(data)
        if left < 0:
            break
        if data and b"\0" not in data[:1024]:
            text = data.replace(b"\r\n", b"\n")
            found[name] = text if text.endswith(b"\n") else text + b"\n"
    return found


def _files(workspace: Workspace, path: str) -> Iterator[str]:
    found = workspace.stat(path)
    if found is None or not stat.S_ISDIR(found.st_mode):
        yield path
        return
    prefix = "" if path in ("", ".") else path.rstrip("/") + "/"
    for entry in _entries(workspace, path):
        if stat.S_ISREG(entry.stat.st_mode):
            yield prefix + entry.path


def _entries(workspace: Workspace, path: str) -> Iterator[WorkspaceEntry]:
    for count, entry in enumerate(workspace.walk(path)):
        if count >= MAX_ENTRIES:
            return
        yield entry


def _names(pattern: str) -> list[re.Pattern[str] | None]:
    """One expression per name; None stands for `**`."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"a pattern has at most {MAX_PATTERN} characters")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    return [None if name == "**" else re.compile(translate(name)) for name in names]


def _matches(names: list[str], wanted: list[re.Pattern[str] | None]) -> bool:
    """Matching by the set of positions in `wanted` reached after each name: linear, with any number of `**`."""
    reached = _past_any(wanted, {0})
    for name in names:
        after = set()
        for place in reached:
            if place < len(wanted):
                one = wanted[place]
                if one is None:
                    after.add(place)
                elif one.match(name):
                    after.add(place + 1)
        reached = _past_any(wanted, after)
    return len(wanted) in reached


def _past_any(wanted: list[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    """Positions after an optional `**`, which may match no name at all."""
    found = set(reached)
    for place in range(len(wanted)):
        if place in found and wanted[place] is None:
            found.add(place + 1)
    return found

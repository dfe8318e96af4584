"""Bounded search: names by pattern, and lines by regular expression in a process that can be ended."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

from conch.errors import ToolError
from conch.tools.workspace import Entry, Workspace

MAX_PATTERN = 1_000
"""Characters of a pattern."""

MAX_RESULTS = 500
"""Files or lines that are found."""

MAX_ENTRIES = 50_000
"""Files and directories that are looked at."""

MAX_SEARCHED_BYTES = 16 * 2**20
"""Bytes of the files that lines are looked for in."""

_MATCHER = Path(__file__).with_name("_matcher.py")
_LITERAL = re.compile(r"[^\\^$.|?*+()\[\]{}]*")


def glob(workspace: Workspace, path: str, pattern: str) -> list[str]:
    """Paths beneath `path`, relative to it, that `pattern` names: `*`, `?`, `[…]` within a name, `**` any names."""
    wanted = _names(pattern)
    found = []
    for entry in _entries(workspace, path):
        if _matches(entry.path.split("/"), wanted):
            found.append(entry.path)
        if len(found) >= MAX_RESULTS:
            break
    return found


def grep(workspace: Workspace, path: str, pattern: str, timeout: float) -> list[str]:
    """`path:line number:line` for the lines in a file, or in those beneath a directory, that `pattern` is found in.

    Files that cannot be read, or that hold a NUL in their beginning, are passed over. Raises ToolError for a pattern
    that is no regular expression of Python, and TimeoutError after `timeout` seconds.
    """
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"a pattern has at most {MAX_PATTERN} characters")
    deadline = time.monotonic() + timeout
    texts = _texts(workspace, path, deadline)
    if _LITERAL.fullmatch(pattern):
        return [line for name, text in texts for line in _lines(name, text, pattern)][:MAX_RESULTS]
    return _match_apart(pattern, list(texts), deadline)


def _match_apart(pattern: str, texts: list[tuple[str, str]], deadline: float) -> list[str]:
    """Matching with backtracking may take for ever and cannot be interrupted: it is done by a process of its own."""
    job = json.dumps({"pattern": pattern, "texts": texts, "most": MAX_RESULTS})
    program = [sys.executable, "-I", "-S", str(_MATCHER)]
    try:
        left = max(0.01, deadline - time.monotonic())
        done = subprocess.run(program, input=job.encode(), capture_output=True, timeout=left, env={}, check=False)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    if done.returncode:
        raise ToolError(f"the search failed: {done.stderr.decode(errors='replace')[-200:]}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise ToolError(f"the pattern is no regular expression: {answer['error']}")
    found: list[str] = answer["found"]
    return found


def _texts(workspace: Workspace, path: str, deadline: float) -> Iterator[tuple[str, str]]:
    left = MAX_SEARCHED_BYTES
    for name in _files(workspace, path):
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            text = workspace.read(name)
        except ToolError:
            if name == path:
                raise
            continue
        left -= len(text)
        if left < 0:
            return
        if "\0" not in text[:1024]:
            yield name, text


def _files(workspace: Workspace, path: str) -> Iterator[str]:
    found = workspace.stat(path)
    if found is None or not stat.S_ISDIR(found.st_mode):
        yield path
        return
    prefix = "" if path in ("", ".") else path.rstrip("/") + "/"
    for entry in _entries(workspace, path):
        if stat.S_ISREG(entry.stat.st_mode):
            yield prefix + entry.path


def _entries(workspace: Workspace, path: str) -> Iterator[Entry]:
    for count, entry in enumerate(workspace.walk(path)):
        if count >= MAX_ENTRIES:
            return
        yield entry


def _lines(name: str, text: str, literal: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if literal in line:
            yield f"{name}:{number}:{line}"


def _names(pattern: str) -> list[re.Pattern[str] | None]:
    """One expression a name; None stands for `**`."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"a pattern has at most {MAX_PATTERN} characters")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    return [None if name == "**" else re.compile(translate(name)) for name in names]


def _matches(names: list[str], wanted: list[re.Pattern[str] | None]) -> bool:
    """By the places in `wanted` that are reached after each name: linear, however many `**` there are."""
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
    """`**` may stand for no name at all."""
    found = set(reached)
    for place in range(len(wanted)):
        if place in found and wanted[place] is None:
            found.add(place + 1)
    return found

"""Looks at the files of a workspace: their size, mode and time of change, and the lines of those that have changed."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from conch.text import well_formed

MOST_ENTRIES = 10_000
"""Most files and directories that one scan visits, those nearest the top first: some 40 ms."""
MOST_FILE_BYTES = 2**20
"""Largest file whose lines are compared."""
LEFT_OUT = frozenset(
    {
        *(".git", ".hg", ".svn", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"),
        *(".hypothesis", ".tox", ".nox"),
    }
)
"""Directories that programs keep for themselves: a test run that fills its cache has not changed the workspace."""


class FileStamp(NamedTuple):
    """What tells that a file is another one than before."""

    mode: int
    size: int
    changed: int
    """Nanoseconds since the epoch. Of a directory, size and time are 0: they follow its entries."""


@dataclass(frozen=True)
class WorkspaceScan:
    """The entries of a workspace by path. `visited`: the directories that were listed; None: all of them."""

    entries: Mapping[str, FileStamp]
    visited: frozenset[str] | None = None

    def lacks(self, path: str) -> bool:
        """Whether there is no such path; false also where that is not known."""
        while path not in self.entries:
            parent = path.rpartition("/")[0]
            if self.visited is None or parent in self.visited:
                return True
            path = parent
        return False


def scan(root: Path, most: int = MOST_ENTRIES) -> WorkspaceScan:
    """The files and directories below `root`, without LEFT_OUT; links are entries and are not followed. A workspace
    that does not exist is empty. A directory that would exceed `most` is left out with all that follow it."""
    found: dict[str, FileStamp] = {}
    pending = deque([""])
    visited: list[str] = []
    while pending:
        directory = pending.popleft()
        try:
            with os.scandir(f"{root}/{directory}" if directory else root) as entries:
                listed = sorted(islice(entries, most - len(found) + 1), key=attrgetter("name"))
        except OSError:  # deleted meanwhile, or not readable
            listed = []
        if len(found) + len(listed) > most:
            return WorkspaceScan(found, frozenset(visited))
        visited.append(directory)
        for entry in listed:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            name = f"{directory}/{entry.name}" if directory else entry.name
            if not stat.S_ISDIR(status.st_mode):
                found[name] = FileStamp(status.st_mode, status.st_size, status.st_mtime_ns)
            elif entry.name not in LEFT_OUT:
                found[name] = FileStamp(status.st_mode, 0, 0)
                pending.append(name)
    return WorkspaceScan(found)


def read_text(root: Path, path: str, most: int = MOST_FILE_BYTES) -> str | None:
    """The text of a regular file; None where it has more than `most` bytes, a NUL, or cannot be read."""
    try:
        handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            regular = stat.S_ISREG(os.fstat(handle).st_mode)
            data = file.read(most + 1) if regular else b"\0"
    except (OSError, ValueError):
        return None
    return None if len(data) > most or b"\0" in data else data.decode(errors="replace")


def shown_path(path: str) -> str:
    """The path as an event holds it: a name that is not UTF-8 has `�` in it."""
    return well_formed(path)[:1000]

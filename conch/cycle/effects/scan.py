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
MOST_BYTES = 8 * 2**20
"""Bytes of all files whose lines are compared: some 0.5 s the first time. Lines of 30 bytes make 2 MB of digests,
those of one letter 32 MB."""
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
    """Time of the last change of content or mode, which no program can set, in nanoseconds since the epoch. Of a
    directory, size and time are 0: they follow its entries."""


@dataclass(frozen=True)
class WorkspaceScan:
    """The entries of a workspace by path. `visited`: the directories that were listed; None: all of them."""

    entries: Mapping[str, FileStamp]
    visited: frozenset[str] | None = None

    def compared(self) -> frozenset[str]:
        """Files whose lines are compared: each of at most MOST_FILE_BYTES, in order as long as MOST_BYTES suffice.

        They follow from the workspace as it stands, so that a look after a restart reads the same ones.
        """
        left, found = MOST_BYTES, []
        for path, stamp in self.entries.items():
            if stat.S_ISREG(stamp.mode) and stamp.size <= min(left, MOST_FILE_BYTES):
                found.append(path)
                left -= stamp.size
        return frozenset(found)

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
                found[name] = FileStamp(status.st_mode, status.st_size, status.st_ctime_ns)
            elif entry.name not in LEFT_OUT:
                found[name] = FileStamp(status.st_mode, 0, 0)
                pending.append(name)
    return WorkspaceScan(found)


def read_content(root: Path, path: str, most: int = MOST_FILE_BYTES) -> bytes | None:
    """The content of a regular file; None where it has more than `most` bytes or cannot be read."""
    try:
        handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            regular = stat.S_ISREG(os.fstat(handle).st_mode)
            data = file.read(most + 1) if regular else None
    except (OSError, ValueError):
        return None
    return data if data is not None and len(data) <= most else None


def text_of(content: bytes | None) -> str | None:
    """The text of a file's content; None where there is none, or it has a NUL."""
    return content.decode(errors="replace") if content is not None and b"\0" not in content else None


def shown_path(path: str) -> str:
    """The path as an event holds it: a name that is not UTF-8 has `�` in it."""
    return well_formed(path)[:1000]

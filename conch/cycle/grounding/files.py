"""The list of the workspace's files that a prompt shows."""

from __future__ import annotations

import os
from collections import deque
from itertools import islice
from operator import attrgetter
from pathlib import Path

from conch.text import well_formed

SHOWN_FILES = 200
LOOKED_AT = 4000
"""Most entries that one walk visits: a workspace of any size takes a few milliseconds."""


def list_files(workspace: Path, most: int = SHOWN_FILES) -> tuple[str, ...]:
    """The workspace's files, relative with `/`, sorted, at most `most`, those nearest the top first.

    Without hidden directories, `__pycache__` and special files. Symbolic links are not followed. A name that is not
    UTF-8 has `�` in it. A workspace that does not exist has no files.
    """
    found: list[str] = []
    pending = deque([""])
    left = LOOKED_AT
    while pending and left > 0 and len(found) < most:
        directory = pending.popleft()
        entries = _entries(f"{workspace}/{directory}", left)
        left -= len(entries) + 1
        for entry in entries:
            name = f"{directory}{entry.name}"
            if entry.is_file(follow_symlinks=False):
                found.append(name)
            elif entry.is_dir(follow_symlinks=False) and not _left_out(entry.name):
                pending.append(f"{name}/")
    return tuple(sorted(well_formed(name) for name in found[:most]))


def _entries(directory: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(islice(entries, most), key=attrgetter("name"))
    except OSError:  # deleted meanwhile, or not readable
        return []


def _left_out(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"

"""Which directories outside of a home Conch has made or filled: in others the embedded mind only reads.

The record is a file of the home, not of the workspace, so a copy of a directory has none. Directories within the home's
own `workspace` are always Conch's.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from conch.home import Home

RECORD = "workspaces.jsonl"
"""File of the home: one JSON object a line, with the path and the inode of a directory."""


def record_made(home: Home, directory: Path) -> None:
    """Record that Conch made or filled `directory`, which is there. A second call changes nothing.

    Raises OSError.
    """
    mark = _mark(directory)
    if not is_made(home, directory):
        with (home.path / RECORD).open("a", encoding="utf-8") as record:
            record.write(f"{json.dumps(mark)}\n")


def is_made(home: Home, directory: Path) -> bool:
    """Whether Conch made or filled this very directory. False for one that is not there, outside of the home.

    A directory that was removed and made again by another program, or that replaced it, has another inode.
    """
    if directory.resolve().is_relative_to(home.workspace.resolve()):
        return True
    try:
        mark = _mark(directory)
        lines = (home.path / RECORD).read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    for line in lines:
        with contextlib.suppress(ValueError):
            if json.loads(line) == mark:
                return True
    return False


def _mark(directory: Path) -> dict[str, str | int]:
    place = directory.resolve()
    return {"path": str(place), "inode": place.stat().st_ino}

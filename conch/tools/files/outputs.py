"""Outputs of commands that are too long for a result: kept as files outside of the workspace, bounded."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from conch.errors import ToolError

OUTPUTS = "@output"
"""The folder that these files are read by with the tool `filesystem`, as `@output/3.txt`. It is none of the workspace:
what is in it counts neither as a change nor as a file of a goal."""
MOST_FILES = 8
"""Files that are kept, the newest ones."""
MOST_SIZES = 2
"""All of them together have at most this many times the bytes that one may have."""


def is_output(path: str) -> bool:
    """Whether a path of the tool `filesystem` is that of a kept output, or of their folder."""
    return _parts(path)[:1] == [OUTPUTS]


def output_name(path: str) -> str:
    """The path of a kept output inside its folder; `.` is the folder. Raises ToolError for one that leads out."""
    names = _parts(path)[1:]
    if ".." in names:
        raise ToolError(f"{path} is refused: it leads out of {OUTPUTS}")
    return "/".join(names) or "."


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


class OutputFile:
    """A file for the output of one program, made at the first `write`. Leaving the context closes it."""

    def __init__(self, folder: Path, most: int) -> None:
        """`most`: bytes that it may have."""
        self._folder, self.most = folder, most
        self._file: BinaryIO | None = None
        self.size = 0
        """Bytes written."""
        self.name: str | None = None
        """Its path for the tool `filesystem`; None: nothing was written."""

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, data: bytes) -> None:
        """Append `data`. Raises OSError where that fails."""
        if self._file is None:
            self._file = self._made()
        self._file.write(data)
        self.size += len(data)

    def _made(self) -> BinaryIO:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = _kept(self._folder)
        number = 1 + max((number for number, _ in kept), default=0)
        _prune(kept, MOST_FILES - 1, (MOST_SIZES - 1) * self.most)
        path = self._folder / f"{number}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.name = f"{OUTPUTS}/{path.name}"
        return open(descriptor, "wb", buffering=0)


def _kept(folder: Path) -> list[tuple[int, Path]]:
    """The kept files with their numbers, the newest first."""
    files = [(int(path.stem), path) for path in folder.glob("*.txt") if path.stem.isdecimal()]
    return sorted(files, reverse=True)


def _prune(kept: list[tuple[int, Path]], most_files: int, most_bytes: int) -> None:
    """Delete the oldest files, so that at most `most_files` of at most `most_bytes` together are left."""
    size = 0
    for place, (_, path) in enumerate(kept):
        with contextlib.suppress(OSError):
            size += path.stat().st_size
            if place >= most_files or size > most_bytes:
                path.unlink()

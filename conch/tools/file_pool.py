"""A pool of files that many owners use in turn: the most recently used ones are open."""

from __future__ import annotations

import resource
from typing import Protocol

OPEN = 256
"""Files that a pool keeps open at most. Agents act in turn: with more of them, every act opens a file, 1 ms."""
SHARE = 16
"""Descriptors of this process to one file of a pool: a file of SQLite takes three, there are three pools, and almost as
much is left to the rest."""


def most_open() -> int:
    """Files that a pool may keep open under the limit of descriptors of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN if soft == resource.RLIM_INFINITY else max(2, min(OPEN, soft // SHARE))


class PooledFile(Protocol):
    """An owner of a file that is opened on use."""

    def shut(self) -> None:
        """Close the file until its next use."""
        ...


class FilePool:
    """Files of many agents; the `most` recently used ones are open; without a number, as many as `most_open` says."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most_open() if most is None else most
        self._open: dict[PooledFile, None] = {}

    def used(self, file: PooledFile) -> None:
        """Mark this file as used. The least recently used ones are closed, and opened again on their next use."""
        self._open.pop(file, None)
        self._open[file] = None
        if len(self._open) > self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.shut()

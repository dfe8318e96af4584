"""A pool of files that many owners use in turn: the most recently used ones are open."""

from __future__ import annotations

from typing import Protocol

OPEN = 64
"""Files that a pool keeps open."""


class PooledFile(Protocol):
    """An owner of a file that is opened on use."""

    def shut(self) -> None:
        """Close the file until its next use."""
        ...


class FilePool:
    """Files of many agents; the `most` recently used ones are open. A file of SQLite takes three descriptors."""

    def __init__(self, most: int = OPEN) -> None:
        self._most = most
        self._open: dict[PooledFile, None] = {}

    def used(self, file: PooledFile) -> None:
        """Mark this file as used. The least recently used ones are closed, and opened again on their next use."""
        self._open.pop(file, None)
        self._open[file] = None
        if len(self._open) > self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.shut()

"""What a candidate changed in its copy: only files that differ are read, as those before are kept by their content."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final, NamedTuple

from conch.cycle.effects.lines import FileLines, difference, file_lines, in_files
from conch.cycle.effects.scan import read_content, text_of
from conch.snapshots import FoundEntry, SnapshotShelf, look
from conch_schemas import ChangedLines

MOST_BYTES: Final = 2**40
"""A copy is looked at whatever its size: what a candidate may write is bounded by the sandbox."""


class CopyChange(NamedTuple):
    """The difference that a candidate made."""

    paths: tuple[str, ...]
    """Paths that differ, sorted."""
    lines: ChangedLines
    """`new`: lines that no file of the workspace had."""


class CopyChanges:
    """Compares copies of one workspace with it. What its files hold is read once for all copies."""

    def __init__(self, shelf: SnapshotShelf, tree: str) -> None:
        self._shelf, self._tree = shelf, shelf.tree(tree)
        self._lines: dict[str, FileLines[int]] | None = None
        self._before: dict[str, FoundEntry] = {}

    def begin(self, copy: Path) -> None:
        """Look at a copy before a candidate is executed in it."""
        self._before = look(copy, MOST_BYTES)

    def end(self, copy: Path) -> CopyChange:
        """What differs in the copy since `begin`."""
        before, after = self._before, look(copy, MOST_BYTES)
        paths = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        compared = [(self._old(name), self._new(copy, name, after)) for name in paths]
        differs = difference((old, new) for old, new in compared if old is not None and new is not None)
        added = set(differs.added)
        fresh = added - in_files(added, self._standing()) if added else added
        counts = ChangedLines(
            added=differs.added.total(), new=len(fresh), removed=differs.removed.total(), moved=differs.moved
        )
        return CopyChange(tuple(paths), counts)

    def _old(self, name: str) -> FileLines[int] | None:
        """The lines of a file before; none of a path that was not there; None: it was no text."""
        entry = self._tree.get(name)
        if entry is None or not stat.S_ISREG(entry.mode):
            return file_lines("")
        return _lines(self._shelf.content(entry.content))

    def _new(self, copy: Path, name: str, after: dict[str, FoundEntry]) -> FileLines[int] | None:
        entry = after.get(name)
        if entry is None or not stat.S_ISREG(entry.mode):
            return file_lines("")
        return _lines(read_content(copy, name))

    def _standing(self) -> dict[str, FileLines[int]]:
        if self._lines is None:
            known = ((name, self._old(name)) for name, entry in self._tree.items() if stat.S_ISREG(entry.mode))
            self._lines = {name: lines for name, lines in known if lines is not None}
        return self._lines


def _lines(content: bytes | None) -> FileLines[int] | None:
    text = text_of(content)
    return None if text is None else file_lines(text)

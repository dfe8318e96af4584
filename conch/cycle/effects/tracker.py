"""Follows the state of a workspace from scan to scan, with the lines of its text files."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from conch.cycle.effects.lines import FileLines, difference, digest_of, in_files, lines_of
from conch.cycle.effects.scan import MOST_FILE_BYTES, FileStamp, WorkspaceScan, read_text, scan
from conch_schemas import ChangedLines

MOST_KEPT_LINES = 200_000
"""Lines of all files that are kept, 8 bytes each: 1.6 MB an agent at most."""
MOST_READ_BYTES = 4 * 2**20
"""Bytes of changed files that are read after one scan, at most: some 100 ms."""


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A file or directory as it was last seen."""

    stamp: FileStamp
    mark: int
    """Digest of path, mode and content; of the time of change instead of the content where there are no lines."""
    lines: FileLines[int] | None = None
    """None: they are not known."""


@dataclass(frozen=True)
class WorkspaceChange:
    """What differs between two looks at a workspace."""

    paths: tuple[str, ...] = ()
    """Paths whose size, mode or time of change differ, sorted."""
    content: bool = False
    """Whether more than times of change differ."""
    lines: ChangedLines = field(default_factory=ChangedLines)
    """Those that are `new` are counted as new to the workspace."""
    written: dict[int, str] = field(default_factory=dict)
    """The added lines by digest."""
    new: frozenset[int] = frozenset()
    """Added lines that no file had before."""


class WorkspaceTracker:
    """The files of one workspace, as they were last seen. Not thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, TrackedFile] = {}
        self._last = WorkspaceScan({})
        self._kept = 0
        self._looked = False

    @property
    def looked(self) -> bool:
        """Whether the workspace was looked at before."""
        return self._looked

    @property
    def size(self) -> int:
        """Files and directories that were seen."""
        return len(self._files)

    @property
    def digest(self) -> int | None:
        """64 bits that stand for all files; None where not all of them were visited."""
        return sum(file.mark for file in self._files.values()) % 2**63 if self._last.visited is None else None

    def lines(self, path: str) -> FileLines[int] | None:
        """The lines of a file as last seen; None where they are not known."""
        file = self._files.get(path)
        return file.lines if file is not None else None

    def look(self) -> WorkspaceChange:
        """Scan the workspace, and compare it with the last look: the first time, with an empty one."""
        last, now = self._last, scan(self._root)
        gone = [path for path in self._files if path not in now.entries and now.lacks(path)]
        differ = [path for path, stamp in now.entries.items() if self._stamp(path) != stamp]
        if not gone and not differ:
            self._last, self._looked = now, True
            return WorkspaceChange()
        before = {path: self._files[path] for path in (*gone, *differ) if path in self._files}
        # A path that was not visited before may be as old as the others.
        known = {path for path in differ if path in before or last.lacks(path)}
        standing = {path: file.lines for path, file in self._files.items() if file.lines is not None}
        for path in gone:
            self._forget(path)
        texts = self._read(now, differ)
        self._last, self._looked = now, True
        paths = [*gone, *(path for path in differ if path in known)]
        content = any(path not in before or self._mark(path) != before[path].mark for path in paths)
        return _change(paths, content, before, self._files, texts, standing)

    def _stamp(self, path: str) -> FileStamp | None:
        file = self._files.get(path)
        return file.stamp if file is not None else None

    def _mark(self, path: str) -> int | None:
        file = self._files.get(path)
        return file.mark if file is not None else None

    def _forget(self, path: str) -> None:
        file = self._files.pop(path, None)
        self._kept -= len(file.lines) if file is not None and file.lines is not None else 0

    def _read(self, now: WorkspaceScan, paths: Sequence[str]) -> dict[str, list[str]]:
        """Track these paths as they are now; returns the lines of those that are text, within the bounds."""
        texts: dict[str, list[str]] = {}
        left = MOST_READ_BYTES
        for path in paths:
            stamp = now.entries[path]
            self._forget(path)
            text = None
            if (stamp.size or stamp.changed) and stamp.size <= min(left, MOST_FILE_BYTES):
                text = read_text(self._root, path)
                left -= stamp.size
            lines = lines_of(text) if text is not None else None
            if lines is not None and self._kept + len(lines) <= MOST_KEPT_LINES:
                texts[path] = lines
                self._kept += len(lines)
            self._files[path] = _tracked(path, stamp, texts.get(path))
        return texts


def _tracked(path: str, stamp: FileStamp, lines: Sequence[str] | None) -> TrackedFile:
    kept = array("q", map(digest_of, lines)) if lines is not None else None
    content = kept.tobytes() if kept is not None else stamp.changed.to_bytes(16, "little", signed=True)
    name = path.encode(errors="surrogateescape")
    found = blake2b(b"%d %d %d %b\0" % (stamp.mode, stamp.size, kept is None, name) + content, digest_size=8).digest()
    return TrackedFile(stamp, int.from_bytes(found, "little") >> 1, kept)


def _change(
    paths: Sequence[str],
    content: bool,
    before: dict[str, TrackedFile],
    after: dict[str, TrackedFile],
    texts: dict[str, list[str]],
    standing: dict[str, FileLines[int]],
) -> WorkspaceChange:
    """The change of these paths. The lines of a file count where they are known before and after it."""
    compared = []
    for path in paths:
        old = before[path].lines if path in before else array("q")
        new = after[path].lines if path in after else array("q")
        if old is not None and new is not None:
            compared.append((path, old, new))
    differs = difference((old, new) for _, old, new in compared)
    written = {
        digest: line
        for path, _, new in compared
        for digest, line in zip(new, texts.get(path, ()), strict=False)
        if digest in differs.added
    }
    added = set(differs.added)
    fresh = added - in_files(added, standing)
    lines = ChangedLines(
        added=differs.added.total(), new=len(fresh), removed=differs.removed.total(), moved=differs.moved
    )
    return WorkspaceChange(tuple(sorted(paths)), content, lines, written, frozenset(fresh))

"""Follows the state of a workspace from scan to scan, with the lines of its text files."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from stat import S_IFMT

from conch.cycle.effects.lines import FileLines, difference, digest_of, in_files, lines_of
from conch.cycle.effects.scan import FileStamp, WorkspaceScan, read_content, scan, text_of
from conch_schemas import ChangedLines


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A file or directory as it was last seen."""

    stamp: FileStamp
    mark: int
    """Digest of path, type and content; of the size instead of the content where that was not read."""
    compared: bool
    """Whether it was among the files that are compared."""
    lines: FileLines[int] | None = None
    """None: it is not compared, or is no text."""


@dataclass(frozen=True)
class WorkspaceChange:
    """What differs between two looks at a workspace."""

    paths: tuple[str, ...] = ()
    """Paths whose size, mode or time of change differ, sorted."""
    content: bool = False
    """Whether more than modes and times of change differ."""
    lines: ChangedLines = field(default_factory=ChangedLines)
    """Those that are `new` are counted as new to the workspace."""
    written: dict[int, str] = field(default_factory=dict)
    """The added lines by digest."""
    new: frozenset[int] = frozenset()
    """Added lines that no file had before."""
    read: frozenset[int] = frozenset()
    """Added lines, and all lines of the files that are compared since this look."""
    files: tuple[str, ...] = ()
    """The files that `read` is from."""
    appended: tuple[str, ...] = ()
    """Files that gained lines, where none lost any."""


class WorkspaceTracker:
    """The files of one workspace, as they were last seen. Not thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, TrackedFile] = {}
        self._last = WorkspaceScan({})
        self._looked = False
        self._unknown: set[str] = set()

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

    def compares(self, path: str) -> bool:
        """Whether the last look read the lines of this file, so that what the agent's own acts wrote to it is known."""
        if path in self._unknown or path not in self._last.entries:
            return False
        return self._files[path].lines is not None

    def leave_unknown(self, paths: Iterable[str]) -> None:
        """Take these files for not compared as long as they exist, in what is read of them: too much was written."""
        self._unknown.update(paths)

    def look(self) -> WorkspaceChange:
        """Scan the workspace, and compare it with the last look: the first time, with an empty one."""
        last, now, files = self._last, scan(self._root), self._files
        gone = [path for path in files if path not in now.entries and now.lacks(path)]
        differ = [
            path for path, stamp in now.entries.items() if (file := files.get(path)) is None or file.stamp != stamp
        ]
        if not gone and not differ:
            self._last, self._looked = now, True
            return WorkspaceChange()
        before = {path: self._files[path] for path in (*gone, *differ) if path in self._files}
        # A path that was not visited before may be as old as the others.
        known = {path for path in differ if path in before or last.lacks(path)}
        standing = {path: file.lines for path, file in self._files.items() if file.lines is not None}
        for path in gone:
            del self._files[path]
            self._unknown.discard(path)
        texts = self._read(now, {*differ})
        self._last, self._looked = now, True
        paths = [*gone, *(path for path in differ if path in known)]
        content = any(path not in before or self._mark(path) != before[path].mark for path in paths)
        return _change(paths, content, before, self._files, texts, standing)

    def _mark(self, path: str) -> int | None:
        file = self._files.get(path)
        return file.mark if file is not None else None

    def _read(self, now: WorkspaceScan, differ: Collection[str]) -> dict[str, list[str]]:
        """Track these paths, and those that are or were compared by turns; returns the lines of those that are text."""
        texts: dict[str, list[str]] = {}
        compared = now.compared()
        for path, stamp in now.entries.items():
            reads = path in compared
            if path not in differ and self._files[path].compared == reads:
                continue
            content = read_content(self._root, path) if reads else None
            if (text := text_of(content)) is not None:
                texts[path] = lines_of(text)
            self._files[path] = _tracked(path, stamp, reads, content, texts.get(path))
        return texts


def _tracked(
    path: str, stamp: FileStamp, compared: bool, content: bytes | None, lines: Sequence[str] | None
) -> TrackedFile:
    size = b"%d" % stamp.size
    known = size if content is None else b"=" + blake2b(content, digest_size=16).digest()
    name = path.encode(errors="surrogateescape")
    mark = blake2b(b"%d %b\0" % (S_IFMT(stamp.mode), name) + known, digest_size=8).digest()
    kept = array("q", map(digest_of, lines)) if lines is not None else None
    return TrackedFile(stamp, int.from_bytes(mark, "little") >> 1, compared, kept)


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
    appended = () if differs.removed else tuple(sorted(path for path, old, new in compared if len(new) > len(old)))
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
    whole = texts.keys() - {path for path, _, _ in compared}
    read = added | {digest for path in whole for digest in after[path].lines or ()}
    return WorkspaceChange(
        tuple(sorted(paths)), content, lines, written, frozenset(fresh), frozenset(read), (*texts,), appended
    )

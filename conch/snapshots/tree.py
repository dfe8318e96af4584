"""The files of a workspace by their content: what is in it, and how a copy of it is made."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from conch.errors import ToolError

MOST_ENTRIES: Final = 10_000
"""Files and directories of a workspace that is kept, at most: looking at them takes some 40 ms."""
LEFT_OUT: Final = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"}
)
"""Directories that programs make anew: a copy is made without them."""
_CLONE: Final = 0x40049409
"""FICLONE of linux/fs.h: the other file shares the blocks of this one until either is written (btrfs, XFS)."""
_NO_CLONE: Final = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)
_CHUNK: Final = 2**20


class TooLargeError(Exception):
    """A workspace that is not kept; the message is one sentence."""


class FoundEntry(NamedTuple):
    """An entry of the workspace as it stands; another stamp means that it was changed."""

    mode: int
    size: int
    changed: int
    """Time of the last change of content or mode, which no program can set, in nanoseconds since the epoch."""
    inode: int


class KeptEntry(NamedTuple):
    """An entry of a tree."""

    mode: int
    content: str
    """Of a file the SHA-256 of its content, of a link its target, of a directory nothing."""
    size: int


def look(root: Path, most_bytes: int) -> dict[str, FoundEntry]:
    """The files, links and directories below `root` without LEFT_OUT, by path; a directory before what is in it.

    Links are not followed; pipes, sockets and devices are left out. Raises TooLargeError beyond MOST_ENTRIES, or beyond
    `most_bytes` of files, OSError where `root` cannot be read.
    """
    found: dict[str, FoundEntry] = {}
    left, pending = most_bytes, [""]
    while pending:
        directory = pending.pop()
        with os.scandir(f"{root}/{directory}" if directory else root) as entries:
            listed = sorted(entries, key=lambda one: one.name)
        for entry in listed:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # deleted meanwhile
            name = f"{directory}/{entry.name}" if directory else entry.name
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                if entry.name in LEFT_OUT:
                    continue
                pending.append(name)
                found[name] = FoundEntry(mode, 0, 0, 0)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                found[name] = FoundEntry(mode, status.st_size, status.st_ctime_ns, status.st_ino)
                left -= status.st_size
        if len(found) > MOST_ENTRIES:
            raise TooLargeError(f"the workspace has more than {MOST_ENTRIES:,} files and directories")
        if left < 0:
            raise TooLargeError(f"the workspace has more than {most_bytes / 2**20:g} MiB")
    return found


def put(root: Path, name: str, found: FoundEntry, objects: Path) -> tuple[KeptEntry, int] | None:
    """Keep one entry: the content of a file among the `objects`, if it is not there. Returns it with the bytes that the
    objects have more. None: it was deleted meanwhile, or replaced by a link. Raises OSError where it cannot be kept."""
    path = f"{root}/{name}"
    if stat.S_ISDIR(found.mode):
        return KeptEntry(found.mode, "", 0), 0
    if stat.S_ISLNK(found.mode):
        try:
            return KeptEntry(found.mode, os.readlink(path), 0), 0
        except OSError:
            return None
    try:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    fresh = objects / f".new-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        digest, size = _taken(source, fresh)
        kept = object_file(objects, digest)
        is_new = not kept.exists()
        if is_new:
            kept.parent.mkdir(exist_ok=True)
            os.replace(fresh, kept)
    finally:
        os.close(source)
        with contextlib.suppress(OSError):
            fresh.unlink()
    return KeptEntry(found.mode, digest, size), size if is_new else 0


def object_file(objects: Path, digest: str) -> Path:
    """The file of a content."""
    return objects / digest[:2] / digest[2:]


def encoded(tree: Mapping[str, KeptEntry]) -> bytes:
    """Canonical bytes of a tree; names that are not UTF-8 are held as lone surrogates, escaped."""
    return json.dumps(sorted((name, *entry) for name, entry in tree.items()), separators=(",", ":")).encode()


def decoded_tree(data: bytes) -> dict[str, KeptEntry]:
    """The tree of these bytes. Raises ValueError for any others."""
    try:
        return {name: KeptEntry(mode, content, size) for name, mode, content, size in json.loads(data)}
    except TypeError as error:
        raise ValueError(f"no tree of a workspace: {error}") from None


def restore(tree: Mapping[str, KeptEntry], objects: Path, into: Path) -> None:
    """Make the files of a tree in an empty directory, sharing blocks with the objects where the file system can.

    Raises ToolError where a content is missing or is not what was kept, OSError where it cannot be written.
    """
    for name, entry in sorted(tree.items()):
        path = into / name
        if stat.S_ISDIR(entry.mode):
            path.mkdir()
        elif stat.S_ISLNK(entry.mode):
            path.symlink_to(entry.content)
        else:
            _give(object_file(objects, entry.content), path, entry)
    for name, entry in sorted(tree.items(), reverse=True):
        if not stat.S_ISLNK(entry.mode):  # a directory last, else nothing could be made in one that is read-only
            os.chmod(into / name, stat.S_IMODE(entry.mode) & 0o777)


def _taken(source: int, fresh: Path) -> tuple[str, int]:
    """Copy, or clone, the open file to `fresh`; (SHA-256, bytes) of what is there then."""
    target = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        cloned = _clone(source, target)
        digest, size, reads = hashlib.sha256(), 0, target if cloned else source
        while block := os.read(reads, _CHUNK):
            digest.update(block)
            size += len(block)
            if not cloned:
                _write_all(target, block)
    finally:
        os.close(target)
    return digest.hexdigest(), size


def _give(kept: Path, path: Path, entry: KeptEntry) -> None:
    try:
        source = os.open(kept, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolError(f"the content of {path.name} is no longer kept (forks.keep, forks.mib)") from None
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if not _clone(source, target):
                digest = hashlib.sha256()
                while block := os.read(source, _CHUNK):
                    digest.update(block)
                    _write_all(target, block)
                if digest.hexdigest() != entry.content:
                    raise ToolError(f"the kept content of {path.name} is damaged: its digest is another one")
            elif os.fstat(target).st_size != entry.size:
                raise ToolError(f"the kept content of {path.name} is damaged: it has another size")
        finally:
            os.close(target)
    finally:
        os.close(source)


def _clone(source: int, target: int) -> bool:
    """Let `target`, which is empty, share the blocks of `source`; False where the file system cannot."""
    try:
        fcntl.ioctl(target, _CLONE, source)
    except OSError as error:
        if error.errno in _NO_CLONE:
            return False
        raise
    return True


def _write_all(target: int, block: bytes) -> None:
    while block:
        block = block[os.write(target, block) :]

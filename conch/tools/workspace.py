"""Access to files of the workspace, one path component at a time, so that no path and no link leads outside."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from conch.errors import ToolError

MAX_DEPTH = 50
"""Deepest directory level of a walk."""

BARE = frozenset({"HEAD", "objects", "refs"})
"""Entries that make a directory a repository for git, under any name: git runs its hooks and obeys its config."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_git(name: str) -> bool:
    """Whether a file system, including a case-insensitive one, takes the name for `.git`."""
    return name.casefold() == ".git"


class OutsideError(ToolError):
    """The path leads, or may lead, outside the workspace: it is refused."""


class MissingError(ToolError):
    """There is no such file or directory."""


class WorkspaceEntry(NamedTuple):
    """A file or directory found by a walk."""

    path: str
    """Relative to the start of the walk, with `/`."""
    stat: os.stat_result


class Workspace:
    """The files below `root`, with access confined to it.

    Paths are relative, with `/`; symbolic links are never followed, special files never opened. Every directory is
    opened relative to its parent's descriptor, so replacing one by a link meanwhile has no effect. Raises OutsideError
    for a path that would leave, ToolError for what cannot be done.
    """

    def __init__(self, root: Path, max_file_bytes: int) -> None:
        self.root = root
        self.max_file_bytes = max_file_bytes

    def read(self, path: str) -> str:
        """The file's text; bytes that are not UTF-8 become `�`."""
        return self.read_bytes(path).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """The file's content."""
        with self._parent(path) as (parent, name), _told(path):
            return self._read(parent, name, path)

    def write(self, path: str, content: str | bytes) -> int:
        """Create the file, or replace it whole, with any missing directories; returns the bytes written.

        Written through a temporary file: a reader sees the old or the new content, never a part. Raises OutsideError
        for a path inside a git repository's own files: git runs its hooks and obeys its config.
        """
        self._check_no_repository(path)
        data = content if isinstance(content, bytes) else content.encode(errors="replace")
        self._check_size(data, path)
        with self._parent(path, make=True) as (parent, name), _told(path):
            mode = self._replaceable(parent, name, path)
            _replace(parent, name, data, mode)
        return len(data)

    def change(self, path: str, changed: Callable[[bytes], bytes]) -> int:
        """Replace the content of a file by what `changed` makes of it; returns the bytes written. The mode stays.

        Written as `write` does. Raises what `changed` raises, and ToolError where the file was changed by another
        program between its reading and its replacement: then that change stands, and nothing is written.
        """
        self._check_no_repository(path)
        with self._parent(path) as (parent, name), _told(path):
            before = os.stat(name, dir_fd=parent, follow_symlinks=False)
            data = changed(self._read(parent, name, path))
            self._check_size(data, path)

            def check() -> None:
                if _stamp(os.stat(name, dir_fd=parent, follow_symlinks=False)) != _stamp(before):
                    raise ToolError(f"{path} was changed meanwhile by another program, and nothing is written: read it")

            _replace(parent, name, data, stat.S_IMODE(before.st_mode) & 0o777, check)
        return len(data)

    def _check_size(self, data: bytes, path: str) -> None:
        if len(data) > self.max_file_bytes:
            raise ToolError(f"{path} would have {len(data)} bytes, more than {self.max_file_bytes}")

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[BinaryIO, int]]:
        """The file opened for reading, and its size in bytes. Raises ToolError for one of more than the most."""
        with self._parent(path) as (parent, name), _told(path), self._opened_file(parent, name, path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > self.max_file_bytes:
                raise ToolError(f"{path} has more than {self.max_file_bytes} bytes")
            yield file, size

    def stat(self, path: str) -> os.stat_result | None:
        """`stat` of the path itself (of a link, not its target); None where there is nothing."""
        try:
            with self._parent(path, root=True) as (parent, name), _told(path):
                return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except MissingError:
            return None

    def entries(self, path: str) -> list[WorkspaceEntry]:
        """The entries of the directory, by name."""
        with self.directory(path) as descriptor, _told(path):
            found = []
            for name in sorted(os.listdir(descriptor)):
                with contextlib.suppress(FileNotFoundError):
                    found.append(WorkspaceEntry(name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
            return found

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents; an existing one is left unchanged.

        Raises OutsideError as `write` does.
        """
        self._check_no_repository(path)
        with self.directory(path, make=True):
            pass

    def delete(self, path: str) -> None:
        """Delete a file, a link, or an empty directory; never the workspace itself, nor anything of a `.git`."""
        if not self._names(path):
            raise OutsideError("the workspace itself cannot be deleted")
        self._check_no_repository(path)
        with self._parent(path) as (parent, name), _told(path):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def walk(self, path: str) -> Iterator[WorkspaceEntry]:
        """Everything below the directory, MAX_DEPTH deep, without `.git`'s content; a directory before its content."""
        with self.directory(path) as descriptor:
            yield from _walk(descriptor, "", MAX_DEPTH)

    def _check_no_repository(self, path: str) -> None:
        """Refuse `.git` in any spelling, and a directory whose entries make it a repository for git."""
        names = self._names(path)
        if any(is_git(name) for name in names):
            raise OutsideError(f"{path} is refused: what is in .git is changed by git alone (the tools git and shell)")
        for place, name in enumerate(names):
            with contextlib.suppress(MissingError), self.directory("/".join(names[:place])) as descriptor:
                if BARE - {name} <= set(os.listdir(descriptor)):
                    raise OutsideError(
                        f"{path} is refused: it would be part of a git repository, which git runs code of"
                    )

    def _read(self, parent: int, name: str, path: str) -> bytes:
        with self._opened_file(parent, name, path) as file:
            data = file.read(self.max_file_bytes + 1)
        if len(data) > self.max_file_bytes:
            raise ToolError(f"{path} has more than {self.max_file_bytes} bytes")
        return data

    @contextlib.contextmanager
    def _opened_file(self, parent: int, name: str, path: str) -> Iterator[BinaryIO]:
        _check_regular(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
        descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=parent)
        with open(descriptor, "rb") as file:
            # Checked again: the entry may have been replaced between the check and the opening.
            _check_regular(os.fstat(descriptor), path)
            yield file

    def _replaceable(self, parent: int, name: str, path: str) -> int | None:
        """The mode for a written file: that of the file it replaces, which must be a regular one; None: it is new."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _check_regular(found, path)
        return stat.S_IMODE(found.st_mode) & 0o777

    def _names(self, path: str) -> list[str]:
        """The components of `path`, with `.` and `..` resolved; none for the workspace itself."""
        if path.startswith("/") or "\0" in path:
            raise OutsideError(f"{path!r} is refused: paths are relative to the workspace")
        names: list[str] = []
        for name in path.split("/"):
            if name == ".." and not names:
                raise OutsideError(f"{path!r} is refused: it leads out of the workspace")
            if name == "..":
                names.pop()
            elif name not in ("", "."):
                names.append(name)
        return names

    @contextlib.contextmanager
    def directory(self, path: str, *, make: bool = False) -> Iterator[int]:
        """The opened directory; created first where `make` says so."""
        descriptor = self._opened(self._names(path), path, make=make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False, root: bool = False) -> Iterator[tuple[int, str]]:
        """The opened parent directory of `path`, and its name there; with `root` the workspace is `.` in itself."""
        names = self._names(path)
        if not names and not root:
            raise ToolError(f"{path!r} is a directory")
        descriptor = self._opened(names[:-1], "/".join(names[:-1]), make=make)
        try:
            yield descriptor, names[-1] if names else "."
        finally:
            os.close(descriptor)

    def _opened(self, names: list[str], path: str, *, make: bool) -> int:
        """A descriptor of the directory of these names, which `path` names in errors. The caller closes it."""
        try:
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"the workspace {self.root} is gone: {error.strerror}; make the directory again") from None
        with _told(path):
            for name in names:
                parent = descriptor
                try:
                    descriptor = _entered(parent, name, make=make)
                finally:
                    os.close(parent)
        return descriptor


def _entered(parent: int, name: str, *, make: bool) -> int:
    """A descriptor of the directory `name` in an opened one. The caller closes it."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError:
        # The error that the system also gives for a link that is opened as a directory.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, name) from None
        raise


def _replace(parent: int, name: str, data: bytes, mode: int | None, check: Callable[[], None] = lambda: None) -> None:
    """Put a file of this content in the place of the entry `name`, in one step. `mode`: None for that of a new file.
    `check` is called before that step, and may raise. What a process that is killed leaves behind is the owner's alone,
    who can read it where he could read the file."""
    new = f".{name[:100]}.{os.getpid()}.{os.urandom(4).hex()}"
    descriptor = os.open(
        new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666 if mode is None else mode & 0o600, dir_fd=parent
    )
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(descriptor, mode)
        check()
        os.replace(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=parent)
        raise


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    """What tells one state of a file from another."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _check_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OutsideError(f"{path} is a symbolic link, and links are not followed")
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path} is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise OutsideError(f"{path} is not a plain file, and special files are not opened")


class _told:  # noqa: N801 - a context manager, as those of contextlib; a generator takes four times as long
    """Turn the system's errors into sentences about the path as it was given."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        path = self._path
        if isinstance(error, FileNotFoundError):
            raise MissingError(f"there is no {path}") from None
        if isinstance(error, OSError):
            if error.errno == errno.ELOOP:
                raise OutsideError(f"{path} is or passes a symbolic link, and links are not followed") from None
            if error.errno == errno.ENOTDIR:
                raise MissingError(f"{path} is not a directory, or passes a file as if it were one") from None
            raise ToolError(f"{path}: {error.strerror or error}") from None
        if isinstance(error, ValueError):
            raise ToolError(f"{path!r}: {error}") from None


def _walk(descriptor: int, prefix: str, depth: int) -> Iterator[WorkspaceEntry]:
    try:
        names = sorted(os.listdir(descriptor))
    except OSError:
        return
    for name in names:
        try:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            continue
        yield WorkspaceEntry(prefix + name, found)
        if stat.S_ISDIR(found.st_mode) and name != ".git" and depth:
            try:
                inner = _entered(descriptor, name, make=False)
            except OSError:
                continue
            try:
                yield from _walk(inner, f"{prefix}{name}/", depth - 1)
            finally:
                os.close(inner)

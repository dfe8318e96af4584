"""Gives one program in the sandbox a shadow of the workspace's git repository, and takes over safe changes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from conch.errors import ToolError
from conch.tools.repository_guard.gitfiles import CONFIG, DATA, HARMLESS, TREES, only_data, problem
from conch.tools.workspace import MissingError, Workspace

INSIDE = "/git"
"""Path, inside the sandbox, of the repository's earlier objects."""

MAX_FILES = 5_000
"""Most files of refs and logs in a repository that a program may change; with more it is read-only."""

MAX_FILE_BYTES = 256 * 2**20
"""Most bytes of an index, or of another of git's files."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SHADOW = "conch-"
_OBJECT = re.compile(r"(?:[0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]{40}\.(?:pack|idx|rev))")


class CopyStamp(NamedTuple):
    """What tells that a copied file is as it was made: no program sets the time of the last change of a file."""

    inode: int
    size: int
    changed: int
    """In nanoseconds since the epoch."""

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Of a file as it stands."""
        return cls(found.st_ino, found.st_size, found.st_ctime_ns)


@dataclass(frozen=True)
class WorkspaceRepository:
    """The mounts over `.git` while a program runs, so that git never uses a config or hooks that the program wrote.

    The program works on a copy of git's data files (HEAD, index, refs, logs), with the objects and all else read-only:
    `keep` copies its changes back, file by file, where they are what git writes there.
    """

    git: Path
    """`.git` of the workspace."""
    shadow: Path | None = None
    """The copy, in a directory of its own in `git`; None where all of `git` is read-only."""
    before: dict[str, bytes] = field(default_factory=dict)
    """The copied files."""
    stamps: dict[str, CopyStamp] = field(default_factory=dict)
    """Of the copies, as they were made."""
    fixed: tuple[str, ...] = ()
    """Names in `git` that are mounted read-only."""

    @classmethod
    def open(cls, workspace: Path) -> Self:
        """Make the copy. Raises ToolError for a `.git` that cannot be protected, OSError where the disk fails.

        A workspace without a repository gets an empty `.git` while the program runs.
        """
        git = workspace / ".git"
        with contextlib.suppress(OSError):
            found = workspace.stat()
            if found.st_uid == os.geteuid() and found.st_mode & 0o700 != 0o700:
                workspace.chmod(found.st_mode | 0o700)  # else a program would, and make `.git` itself
        try:
            git.mkdir()
        except FileExistsError:
            pass
        except PermissionError:
            return cls(git)  # where we may not write, a program may not either
        mode = git.lstat().st_mode
        if stat.S_ISREG(mode):
            return cls(git)
        if not stat.S_ISDIR(mode):
            raise ToolError(f"{git} is a link or no file at all, which a program could exchange: make it a directory")
        shadow = _shadow(git)
        if shadow is None:
            return cls(git)
        try:
            return cls._copied(git, shadow)
        except BaseException:
            remove(shadow)
            raise

    @classmethod
    def _copied(cls, git: Path, shadow: Path) -> Self:
        names = [one for one in os.scandir(git) if not one.name.startswith(_SHADOW) and not one.is_symlink()]
        real = Workspace(git, MAX_FILE_BYTES)
        paths = _data(real)
        if len(paths) > MAX_FILES:
            remove(shadow)
            return cls(git)
        before, stamps = {}, {}
        directories = {path.rpartition("/")[0] for path in paths} | {*TREES, "objects/info", "objects/pack"}
        for directory in sorted(directories - {""}):
            os.makedirs(f"{shadow}/{directory}", exist_ok=True)
        for path, found in paths.items():
            with contextlib.suppress(MissingError):
                before[path] = real.read_bytes(path)
                stamps[path] = _copy(f"{shadow}/{path}", before[path], found.st_mtime_ns)
        _copy(f"{shadow}/objects/info/alternates", f"{INSIDE}/objects\n".encode())
        fixed = [one.name for one in names if not DATA.fullmatch(one.name) and one.name not in (*TREES, "objects")]
        return cls(git, shadow, before, stamps, tuple(sorted(name for name in fixed if not name.endswith(".lock"))))

    def mounts(self, inside: str) -> list[str]:
        """Options for bubblewrap, where `inside` is the workspace."""
        if self.shadow is None:
            return ["--ro-bind-try", str(self.git), f"{inside}/.git"]
        found = ["--bind", str(self.shadow), f"{inside}/.git"]
        for name in self.fixed:
            found += ["--ro-bind", str(self.git / name), f"{inside}/.git/{name}"]
        objects = self.git / "objects"
        return [*found, "--ro-bind", str(objects), f"{INSIDE}/objects"] if objects.is_dir() else found

    def keep(self) -> list[str]:
        """Copy the program's changes back, objects first; returns what was not kept, in a few words each. Call it once.

        Concurrent changes by the user's own git are kept.
        """
        if self.shadow is None:
            return []
        self.shadow.chmod(0o700)
        real, copy = Workspace(self.git, MAX_FILE_BYTES), Workspace(self.shadow, MAX_FILE_BYTES)
        paths = _data(copy)
        if "HEAD" not in paths:
            return [".git (a program left it without a HEAD)"] if "HEAD" in self.before else []
        refused = self._strange(copy)
        if "HEAD" not in self.before and (why := self._begin(copy)):
            return [f".git ({why})"]
        self._keep_objects()
        packed = self._keep_file(real, copy, "packed-refs", paths) if "packed-refs" in paths else None
        refused += [f".git/packed-refs ({packed})"] if packed else []
        # Deletions come first: a branch `a/b` may replace a branch `a`. Packed refs come before them: git deletes the
        # file of a ref that it has packed.
        gone = [path for path in self.before if path not in paths and not (packed and path.startswith("refs/"))]
        for path in (*gone, *sorted(paths, key=lambda path: (not path.startswith("refs/"), path))):
            if path != "packed-refs" and (why := self._keep_file(real, copy, path, paths)):
                refused.append(f".git/{path} ({why})")
        return refused

    def close(self) -> None:
        """Remove the copy, and a `.git` that was made only for it."""
        if self.shadow is not None:
            remove(self.shadow)
        with contextlib.suppress(OSError):
            self.git.rmdir()

    def _strange(self, copy: Workspace) -> list[str]:
        """Files that the program created besides git's data."""
        known = {*self.fixed, *TREES, "objects"}
        found = []
        for name in (entry.path for entry in copy.entries(".")):
            new = "HEAD" not in self.before and name == "config" and only_data(copy.read(name))
            samples = name == "hooks" and all(hook.path.endswith(".sample") for hook in copy.entries(name))
            if not (new or samples or name in known or DATA.fullmatch(name) or HARMLESS.fullmatch(name)):
                found.append(f".git/{name}")
        return found

    def _begin(self, copy: Workspace) -> str | None:
        """Initialise a repository in the directory, with a config that holds only data; or return why not."""
        config = copy.read("config") if copy.stat("config") else CONFIG
        if "objectformat" in config.lower():
            return "only repositories with SHA-1 can be made here"
        try:
            with (self.git / "config").open("x") as file:
                file.write(config if only_data(config) else CONFIG)
        except FileExistsError:
            return "it was made meanwhile"
        for name in (*TREES, "objects/info", "objects/pack"):
            (self.git / name).mkdir(parents=True, exist_ok=True)
        return None

    def _keep_objects(self) -> None:
        """Copy new objects; an existing one stays: its name is the hash of its content."""
        assert self.shadow is not None
        objects = Workspace(self.git / "objects", MAX_FILE_BYTES)
        made = Workspace(self.shadow / "objects", MAX_FILE_BYTES)
        # git uses a pack once its index is there.
        for entry in sorted(made.walk("."), key=lambda entry: entry.path.endswith(".idx")):
            if not stat.S_ISREG(entry.stat.st_mode) or not _OBJECT.fullmatch(entry.path):
                continue
            place, name = entry.path.split("/")
            with made.directory(place) as old, objects.directory(place, make=True) as new:
                if not _there(name, new):
                    os.chmod(name, 0o444, dir_fd=old)
                    os.rename(name, name, src_dir_fd=old, dst_dir_fd=new)

    def _keep_file(self, real: Workspace, copy: Workspace, path: str, paths: dict[str, os.stat_result]) -> str | None:
        """Why the file was not kept; None where it was, or has not changed."""
        before, found = self.before.get(path), paths.get(path)
        if found is not None and CopyStamp.of(found) == self.stamps.get(path):
            return None
        try:
            after = copy.read_bytes(path) if found is not None else None
            if after == before:
                return None
            if after is not None and (why := problem(path, after)):
                return why
            why = _exchange(real, path, before, after, found.st_mtime_ns if found is not None else None)
        except MissingError:
            return None  # it was to be deleted, and its directory is gone
        except (ToolError, OSError) as error:
            return str(error)
        for parent in Path(path).parents[:-2] if after is None else ():
            with contextlib.suppress(OSError):
                (self.git / parent).rmdir()
        return why


def relink(workspace: Path, clone: Path) -> None:
    """Rewrite the object path of a clone that a program made of the workspace's repository to the one outside."""
    wanted = os.path.relpath(workspace / ".git/objects", clone / "objects")
    inside = os.path.relpath(clone / "objects/info", workspace)
    with contextlib.suppress(ToolError, OSError):
        files = Workspace(workspace, 65536)
        text = files.read(f"{inside}/alternates")
        if f"{INSIDE}/objects\n" in text:
            with files.directory(inside) as directory:
                descriptor = os.open("relinked", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, dir_fd=directory)
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(text.replace(f"{INSIDE}/objects\n", f"{wanted}\n"))
                os.replace("relinked", "alternates", src_dir_fd=directory, dst_dir_fd=directory)


def _exchange(
    real: Workspace, path: str, before: bytes | None, after: bytes | None, mtime_ns: int | None
) -> str | None:
    """Replace a file as git does: under git's own lock, and only if the file is still unchanged."""
    directory, _, name = path.rpartition("/")
    with real.directory(directory, make=after is not None) as parent:
        lock = f"{name}.lock"
        try:
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=parent)
        except FileExistsError:
            return "git is at work on it"
        try:
            with open(descriptor, "wb") as file:
                file.write(after or b"")
            now = real.read_bytes(path) if real.stat(path) is not None else None
            if now != before:
                return "it was changed meanwhile"
            if after is None:
                os.unlink(name, dir_fd=parent)
            else:
                os.utime(lock, ns=(mtime_ns or 0, mtime_ns or 0), dir_fd=parent)
                os.replace(lock, name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(lock, dir_fd=parent)
    return None


def _there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _shadow(git: Path) -> Path | None:
    """A new directory in `git`; None where none can be made. Those of dead processes are removed."""
    for name in os.listdir(git):
        if name.startswith(_SHADOW) and not os.path.exists(f"/proc/{name.split('-')[1]}"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - os.lstat(git / name).st_mtime > 60:
                    remove(git / name)
    for _ in range(100):
        shadow = git / f"{_SHADOW}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            shadow.mkdir(0o700)
            return shadow
        except FileNotFoundError:
            # Another program ended just now, and removed the `.git` that was made for it.
            with contextlib.suppress(FileExistsError):
                git.mkdir()
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return None
            raise
    return None


def remove(directory: Path) -> None:
    """Remove a directory, also without permissions in it, or with paths beyond the length limit."""
    with contextlib.suppress(OSError, RecursionError):
        descriptor = os.open(directory, _DIRECTORY)
        try:
            _empty(descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(directory)
    if directory.exists():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(directory)], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _empty(directory: int) -> None:
    """Remove what an opened directory holds; no link is followed. Raises OSError at the first entry that stays."""
    with os.scandir(directory) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in listed:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
            continue
        inner = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            _empty(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=directory)


def _copy(path: str, content: bytes, mtime_ns: int | None = None) -> CopyStamp:
    """Make a file in the shadow, which no program sees yet. With the time of its original: git uses it to find files
    that may have changed since the index was written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(content)
        if mtime_ns is not None:
            os.utime(descriptor, ns=(mtime_ns, mtime_ns))
        return CopyStamp.of(os.fstat(descriptor))


def _data(repository: Workspace) -> dict[str, os.stat_result]:
    """Paths of git's data files, and what is known of each."""
    found = {}
    for entry in repository.entries("."):
        if stat.S_ISREG(entry.stat.st_mode) and DATA.fullmatch(entry.path):
            found[entry.path] = entry.stat
    for tree in TREES:
        with contextlib.suppress(ToolError):
            for entry in repository.walk(tree):
                if stat.S_ISREG(entry.stat.st_mode) and not entry.path.endswith(".lock"):
                    found[f"{tree}/{entry.path}"] = entry.stat
    return found

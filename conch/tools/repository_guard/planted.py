"""Finds repositories in the workspace that make git run code, and disables those that a program planted there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conch.tools.repository_guard.gitfiles import orders
from conch.tools.workspace import BARE, is_git

MAX_DIRECTORIES = 100_000
"""Most directories of a workspace that are searched."""

ASIDE = ".set-aside"
"""Suffix added to the file that makes a directory a repository."""

_CODE = frozenset({"config", "config.worktree", "commondir", "gitdir", "git-rebase-todo"})
"""Files, beside hooks, from which git takes instructions, anywhere in a repository."""


@dataclass(frozen=True)
class PlantedRepository:
    """A repository in the workspace that makes git run code, or read settings from elsewhere."""

    marker: Path
    """The file that makes it a repository: without it git searches the parent directories."""
    why: str
    """What makes git run code."""
    digest: bytes
    """Digest of all that git takes instructions from: without commits, and independent of its path."""


def repositories(workspace: Path) -> list[tuple[Path, Path]]:
    """All repositories in the workspace but its own `.git`, for which see `WorkspaceRepository`.

    For each the file that makes it a repository, and the directory that git uses for it.
    """
    return [(marker, repository) for marker, repository in _walk(workspace) if os.path.lexists(marker)]


def find(nested: list[tuple[Path, Path]]) -> list[PlantedRepository]:
    """Those that make git run code."""
    found = []
    for marker, repository in nested:
        if names := ["a link"] if marker.is_symlink() else _orders(repository):
            found.append(PlantedRepository(marker, ", ".join(names), _digest(marker, repository, names)))
    return found


def set_aside(nested: list[tuple[Path, Path]], before: frozenset[bytes]) -> list[str]:
    """Turn those with a digest not in `before` into ordinary directories; returns a few words on each."""
    said = []
    for one in find(nested):
        if one.digest not in before:
            with contextlib.suppress(OSError):
                one.marker.parent.chmod(0o700)
                one.marker.rename(one.marker.with_name(one.marker.name + ASIDE))
            where = "/".join(one.marker.parts[-3:])
            said.append(f"{where} (set aside as {one.marker.name}{ASIDE}: {one.why})")
    return said


def _walk(workspace: Path) -> Iterator[tuple[Path, Path]]:
    root = str(workspace)
    waiting, seen = [root], 0
    while waiting and (seen := seen + 1) <= MAX_DIRECTORIES:
        directory = waiting.pop()
        entries = _entries(directory)
        if {entry.name for entry in entries} >= BARE:
            yield Path(directory, "HEAD"), Path(directory)
        for entry in entries:
            if is_git(entry.name):
                if directory != root or entry.name != ".git":
                    yield from _inner(Path(entry))
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    """The entries of a directory, also of one that may be entered but not listed; empty where they are not readable."""
    try:
        return list(os.scandir(directory))
    except PermissionError:
        pass
    except OSError:
        return []
    with contextlib.suppress(OSError):
        mode = os.stat(directory).st_mode & 0o7777
        os.chmod(directory, mode | 0o500)
        try:
            return list(os.scandir(directory))
        finally:
            os.chmod(directory, mode)
    return []


def _inner(git: Path) -> Iterator[tuple[Path, Path]]:
    if git.is_symlink():
        yield git, git
    elif git.is_dir():
        yield git / "HEAD", git
    elif git.is_file():
        with contextlib.suppress(OSError), git.open(encoding="utf-8", errors="replace") as file:
            yield git, git.parent / file.read(4096).removeprefix("gitdir:").strip()


def _orders(repository: Path) -> list[str]:
    try:
        return orders(repository)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        return [str(error)]


def _digest(marker: Path, repository: Path, names: list[str]) -> bytes:
    whole = hashlib.sha256(repr(names).encode(errors="replace"))
    for path in (marker, *(repository / name for name in names)):
        for part in sorted(_parts(path)):
            whole.update(_content(part) + b"\0")
    return whole.digest()


def _parts(path: Path) -> Iterator[Path]:
    """The path itself, or the files in it that git takes instructions from."""
    if path.is_symlink() or not path.is_dir():
        if path.name != "HEAD" or path.is_symlink():
            yield path
        return
    for place, _, files in os.walk(path):
        yield from (Path(place, name) for name in files if name in _CODE or "hooks" in Path(place).parts)


def _content(path: Path) -> bytes:
    try:
        if path.is_symlink():
            return os.fsencode(os.readlink(path))
        return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b""
    except OSError as error:
        return str(error.errno).encode()

"""Classifies the files of a git repository: pure data, or files that git executes or reads settings from."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from conch.tools.workspace import is_git

DATA = re.compile(
    r"HEAD|index|packed-refs|[A-Z]+(?:_[A-Z]+)*_HEAD|AUTO_MERGE|(?:COMMIT_EDIT|MERGE_|SQUASH_)MSG|MERGE_MODE|MERGE_RR"
)
"""Files at the top of a repository that contain only data."""

TREES = ("refs", "logs")
"""Directories that contain only data: refs and their history."""

HARMLESS = re.compile(r".*\.lock|description|branches|gc\.pid|gc\.log|info|objects|refs|logs|shallow")
"""Other files that git creates and takes no instructions from."""

CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
"""The config that `git init` writes."""

_SETTING = re.compile(
    r"""\s*|[#;].*|\[(?:core|user|remote\ "[\w./-]+"|branch\ "[\w./-]+")\]
    |\s*(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks)\ =\ (?:0|true|false)
    |\s*(?:name|email)\ =\ [\w.@+,\ -]+
    |\s*(?:url|remote)\ =\ (?!.*::)[\w./@][\w./@:~+-]*
    |\s*fetch\ =\ \+?refs/[\w./*-]+:refs/[\w./*-]+|\s*merge\ =\ refs/[\w./-]+""",
    re.VERBOSE,
)
_REF = re.compile(rb"(?:ref: refs/[^\s\0]+|[0-9a-f]{40})\n?")
_REF_NAME = re.compile(
    r"(?:refs|logs)/(?!.*(?:\.\.|@\{|//|\.lock$))(?:(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+/)*(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+"
)


def only_data(config: str) -> bool:
    """Whether no line of a repository's config makes git run a program or read another settings file."""
    return all(_SETTING.fullmatch(line) for line in config.split("\n"))


def problem(path: str, content: bytes) -> str | None:
    """Why a file of a repository is not one that git would have written; None if it is."""
    if path == "index":
        return _index_problem(content)
    if path.startswith(("refs/", "logs/")) and path != "logs/HEAD" and not _REF_NAME.fullmatch(path):
        return "no name of a branch or tag"
    if (path == "HEAD" or path.startswith("refs/")) and (not _REF.fullmatch(content) or b".." in content):
        return "no name of a commit"
    return None


def orders(repository: Path) -> list[str]:
    """Names, sorted, of all in a repository that git executes, or reads settings or other paths from.

    Links count: git writes through them to their targets.
    """
    found = []
    for entry in os.scandir(repository):
        name = entry.name
        if entry.is_symlink():
            found.append(name)
        elif name == "config":
            if not entry.is_file() or not only_data(Path(entry).read_text(encoding="utf-8", errors="replace")):
                found.append(name)
        elif name == "hooks" and entry.is_dir():
            found += [f"hooks/{hook}" for hook in os.listdir(entry) if not hook.endswith(".sample")]
        elif name in TREES:
            found += [f"{name}/{link}" for link in _links(Path(entry))]
        elif not DATA.fullmatch(name) and not HARMLESS.fullmatch(name):
            found.append(name)
    return sorted(found)


def _links(directory: Path) -> Iterator[str]:
    for place, directories, files in os.walk(directory):
        for name in (*directories, *files):
            if os.path.islink(os.path.join(place, name)):
                yield os.path.relpath(os.path.join(place, name), directory)


def _index_problem(content: bytes) -> str | None:
    """Why an index is unsafe: git writes the paths that it names, `.git/hooks/post-checkout` too."""
    try:
        for name in index_names(content):
            parts = name.split("/")
            if any(part in ("", ".", "..") or is_git(part) for part in parts):
                return f"it names {name!r}"
    except (struct.error, ValueError, IndexError):
        return "no index of git"
    return None


def index_names(content: bytes) -> Iterator[str]:
    """The paths in an index (versions 2 to 4 with SHA-1). Raises ValueError, IndexError or struct.error for any other,
    and for a truncated one."""
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(content[:8])
    place, name = 12, b""
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", content, place + 60)
        start = place + (64 if flags & 0x4000 else 62)
        if version == 4:
            strip, start = _number(content, start)
            end = content.index(b"\0", start)
            name = name[: len(name) - strip] + content[start:end]
            place = end + 1
        else:
            end = content.index(b"\0", start)
            name = content[start:end]
            place += (end - place + 8) & ~7
        yield os.fsdecode(name)
    while place < len(content) - 20:
        signature, length = struct.unpack_from(">4sI", content, place)
        if signature[:1].islower():
            raise ValueError(signature)  # it changes what entries mean: a part of it is in another file
        place += 8 + length


def _number(content: bytes, place: int) -> tuple[int, int]:
    """A variable-length number, as in packs, and the index after it."""
    value = content[place] & 0x7F
    while content[place] & 0x80:
        place += 1
        value = ((value + 1) << 7) | (content[place] & 0x7F)
    return value, place + 1

"""Fills an empty directory with a sample project."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from conch.workspace.samples import TIDEPOOL, WorkspaceSample

_GIT_SECONDS = 5.0
_AUTHOR = "[user]\n\tname = echo\n\temail = echo@conch.invalid\n"
"""In the repository's own configuration: later commits have a name even without a home directory."""


def fill(directory: Path, sample: WorkspaceSample = TIDEPOOL) -> None:
    """Copy the sample into `directory` and make a git repository of it, with its history.

    A directory with anything in it belongs to a person and is left as it is; a missing one is made. Without a working
    git the files are copied all the same. Raises OSError where the files cannot be written. Takes about 50 ms.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        return
    shutil.copytree(sample.files, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    try:
        _commit_all(directory, sample)
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(directory / ".git", ignore_errors=True)


def _commit_all(directory: Path, sample: WorkspaceSample) -> None:
    _git(directory, "-c", "init.defaultBranch=main", "init", "--quiet", "--template=")
    with (directory / ".git" / "config").open("a") as config:
        config.write(_AUTHOR)
    for message, paths in sample.history:
        _commit(directory, message, *paths)


def _commit(directory: Path, message: str, *paths: str) -> None:
    _git(directory, "add", "--", *paths)
    _git(directory, "commit", "--quiet", "--no-verify", "-m", message)


def _git(directory: Path, *args: str) -> None:
    """git as it comes, without the person's own configuration, hooks or identity."""
    clean = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(directory.resolve().parent),
        "LC_ALL": "C",
    }
    subprocess.run(
        ["git", *args], cwd=directory, env=clean, check=True, timeout=_GIT_SECONDS,
        stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True,  # a Ctrl-C is not git's
    )  # fmt: skip


@dataclass(frozen=True)
class WorkspaceTemplate:
    """The files that `fill` writes, held in memory (0.1 MB): a thousand agents get a workspace each in a few
    milliseconds."""

    directories: tuple[str, ...]
    """Relative, each behind the one that it is in."""
    files: tuple[tuple[str, int, bytes], ...]
    """Relative path, mode, content."""

    @classmethod
    def make(cls, sample: WorkspaceSample = TIDEPOOL) -> Self:
        """Fill a directory for the moment. Raises OSError."""
        with tempfile.TemporaryDirectory(prefix="conch-") as place:
            filled = Path(place, "workspace")
            fill(filled, sample)
            with suppress(OSError, subprocess.SubprocessError):
                _git(filled, "gc", "--quiet")  # a third of the files
            entries = sorted(filled.rglob("*"))
            return cls(
                tuple(str(entry.relative_to(filled)) for entry in entries if entry.is_dir()),
                tuple(
                    (str(entry.relative_to(filled)), entry.stat().st_mode & 0o777, entry.read_bytes())
                    for entry in entries
                    if entry.is_file()
                ),
            )

    def into(self, directory: Path) -> bool:
        """A filled workspace at `directory`, whole or not at all; whether it was filled. One with anything in it is
        left as it is.

        Raises OSError.
        """
        place = directory.resolve()
        if place.exists() and any(place.iterdir()):
            return False
        beside = place.with_name(f".{place.name}.fresh")
        shutil.rmtree(beside, ignore_errors=True)  # of a process that died
        beside.mkdir(parents=True)
        for name in self.directories:
            os.mkdir(beside / name)
        for name, mode, content in self.files:
            handle = os.open(beside / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(handle, "wb") as file:
                file.write(content)
        beside.replace(place)
        return True

"""Fill an empty directory with something worth doing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

FILES = Path(__file__).parent / "files"

UNCOMMITTED = "data/october.csv"
"""Left out of the repository: committing it is one of the goals."""

_GIT_SECONDS = 5.0
_AUTHOR = "[user]\n\tname = echo\n\temail = echo@conch.invalid\n"
"""In the repository's own configuration: whoever commits there later has a name without a home directory."""


def fill(directory: Path) -> None:
    """Copy the notebook into `directory` and make a git repository of it, with a history of three commits.

    A directory with anything in it is somebody's own and is left as it is; one that is not there is made. Without a
    git that works the files are there all the same. Raises OSError where the files cannot be written. Takes about
    50 ms.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        return
    shutil.copytree(FILES, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / ".gitignore").write_text("__pycache__/\n")
    try:
        _commit_all(directory)
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(directory / ".git", ignore_errors=True)


def _commit_all(directory: Path) -> None:
    _git(directory, "-c", "init.defaultBranch=main", "init", "--quiet", "--template=")
    with (directory / ".git" / "config").open("a") as config:
        config.write(_AUTHOR)
    _commit(directory, "The notes, as they were written beside the water", "README.md", ".gitignore", "notes")
    _commit(directory, "What was counted, May to September", "data", f":!{UNCOMMITTED}")
    _commit(directory, "A program that counts, and tests that ask for more", "tidepool", "tests")


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

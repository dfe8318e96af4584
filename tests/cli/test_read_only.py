"""A home that cannot be written: what only reads still works, and what cannot says so."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.home import Home
from conch.processes import bubblewrap_programs

if TYPE_CHECKING:
    from tests.cli.conftest import Life


CONCH = Path(sys.executable).with_name("conch")
LEFT_BY_A_KILL = """
import os, sqlite3, sys
from conch.experience import packing
db = sqlite3.connect(sys.argv[1], isolation_level=None)
packing.register(db)
db.execute("PRAGMA wal_autocheckpoint = 0")
db.execute(sys.argv[2])
os._exit(0)
"""

Reads = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def reads(home: Home, needs: Callable[[str, str], None]) -> Reads:
    """A command of conch for which the home is mounted read-only."""
    needs("bwrap", "install bubblewrap")
    sealed = [
        bubblewrap_programs()[0],
        "--dev-bind",
        "/",
        "/",
        "--ro-bind",
        str(home.path),
        str(home.path),
        "--",
        str(CONCH),
    ]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*sealed, *arguments, "--home", str(home.path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


def leave(home: Home, sql: str) -> None:
    """A change of the store that stands in the write-ahead log alone, without the index of that."""
    file = home.path / "store.db"
    subprocess.run([sys.executable, "-c", LEFT_BY_A_KILL, str(file), sql], check=True)
    file.with_name("store.db-shm").unlink()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("status", "no run in progress"),
        ("cycle list", "filesystem"),
        ("cycle show 1", "cycle 1 of echo"),
        ("mark verify", "6 marks of 3 acts of echo hold"),
        ("mark list", "echo"),
        ("mark show 3", "hash"),
        ("reward list", "format"),
        ("config show", "agent"),
    ],
)
def test_a_read_only_home_can_be_read(command: str, says: str, filled: Life, reads: Reads) -> None:
    """Nothing has to be made for looking."""
    found = reads(*command.split())

    assert (found.returncode, found.stderr) == (0, "")
    assert says in found.stdout


def test_what_a_killed_run_left_in_the_log_counts(filled: Life, home: Home, reads: Reads) -> None:
    """The write-ahead log is read although its index cannot be made beside it."""
    leave(home, "UPDATE marks SET body = replace(CAST(unpacked(body) AS TEXT), 'Outcome', 'Income') WHERE sequence = 4")

    found = reads("mark", "verify")

    assert found.returncode == 4
    assert "Mark 4 is not what its hash was taken over" in found.stdout


def test_a_store_of_an_older_version_is_named(filled: Life, home: Home, reads: Reads) -> None:
    """One sentence names the version that migrates it."""
    with closing(sqlite3.connect(home.path / "store.db")) as db:
        db.execute("PRAGMA user_version = 3")

    found = reads("status")

    assert found.returncode == 1
    assert "was written by an older Conch (schema 3, this one knows 8)" in found.stderr
    assert "which migrates it" in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["bus info", "goal list", "consumer list"])
def test_what_needs_the_stream_says_why_it_cannot(command: str, filled: Life, reads: Reads) -> None:
    """The embedded server has to write."""
    found = reads(*command.split())

    assert found.returncode == 1
    assert found.stderr.startswith("conch: the stream is read through a server that writes in the home")
    assert "Read-only file system" in found.stderr
    assert found.stderr.count("\n") == 1


def test_marks_are_verified_as_far_as_the_store_tells(filled: Life, home: Home, reads: Reads) -> None:
    """What has no mark there is said: the total and its five scores."""
    leave(home, "DELETE FROM marks WHERE sequence = 5")

    found = reads("mark", "verify")

    assert found.returncode == 4
    assert "found wrong" in found.stderr
    assert "unwitnessed: Revision 1 of the total of action " in found.stdout

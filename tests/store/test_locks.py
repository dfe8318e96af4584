"""The locks that a process holds on the store's index, which tell other processes that it has the store open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conch.experience import SqliteReader, SqliteStore

FIRST = 128
"""The byte of the index that each process locks for reading which has it mapped: the one that can lock it for writing
is the first, and cuts the index off (`UNIX_SHM_DMS` of SQLite)."""
IS_LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as index:
    try:
        fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))
    except OSError:
        sys.exit(3)
"""
READS = """
import subprocess, sys
from conch.experience import SqliteReader, SqliteStore

with SqliteReader(sys.argv[1]) as reader:
    reader.position()
    with SqliteStore(sys.argv[1]) as writer:
        writer.set_position(8)
    subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1] + "-shm", sys.argv[3]], check=True)
    print(reader.position())
"""
OPENS = """
import fcntl, os, sys
with open(sys.argv[1], "r+b") as index:
    try:
        fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))
        os.ftruncate(index.fileno(), 3)
    except OSError:
        pass
"""
"""What SQLite does first in a process that opens a store, and what follows if it is stopped there."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "store.db"
    with SqliteStore(file) as store:
        store.set_position(7)
    return file


def is_locked(path: Path) -> bool:
    """Whether another process sees this one as having the store open."""
    command = [sys.executable, "-c", IS_LOCKED, f"{path}-shm", str(FIRST)]
    return subprocess.run(command, check=False).returncode == 3


def test_a_writer_that_closes_leaves_the_locks_of_a_reader_beside_it(path: Path) -> None:
    """However often one is opened; with the reader the process lets go."""
    with SqliteReader(path) as reader:
        reader.position()
        before = is_locked(path)
        for position in range(3):
            with SqliteStore(path) as store:
                store.set_position(position + 8)
        after = is_locked(path)

        assert (before, after, reader.position()) == (True, True, 10)
    assert not is_locked(path)


def test_a_reader_that_closes_leaves_the_locks_of_a_writer_beside_it(path: Path) -> None:
    """The other order."""
    with SqliteStore(path):
        with SqliteReader(path) as reader:
            reader.position()

        assert is_locked(path)


def test_the_index_has_its_blocks_before_it_is_written_to(path: Path) -> None:
    """For a log of 128 MiB, and by SQLite's own descriptor: no other is open to it."""
    with SqliteStore(path):
        index = Path(f"{path}-shm")
        open_to_it = [one for one in Path("/proc/self/fd").iterdir() if one.exists() and one.samefile(index)]

        assert index.stat().st_size >= 256 * 1024
        assert index.stat().st_blocks * 512 >= 256 * 1024
        assert len(open_to_it) == 1


def test_a_process_that_opens_the_store_ends_no_reader(path: Path) -> None:
    """A writer beside a reader closes, and another process opens the store: the reader reads on. It ended by SIGBUS."""
    command = [sys.executable, "-c", READS, str(path), OPENS, str(FIRST)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (found.returncode, found.stdout) == (0, "8\n"), found.stderr

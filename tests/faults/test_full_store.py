"""No room for the store: a sentence, never the end of the process, and nothing lost once there is room again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LEVELS = """
import os, random, shutil, sys
from pathlib import Path
from conch.errors import StoreError
from conch.experience import SqliteReader, SqliteStore

place, kind = Path(sys.argv[1]), sys.argv[2]
file, filling = place / "store.db", place / "filling"

def child(work):
    if (pid := os.fork()) == 0:
        try:
            work()
        except StoreError as error:
            print(error, flush=True)
            os._exit(9 if "disk is full" in str(error) else 8)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def lives():  # and is killed: what it wrote stands in the write-ahead log
    SqliteStore(file).set_position(5)

def writes():
    store = SqliteStore(file)
    for position in range(6, 12):
        store.set_position(position)

def reads():
    assert SqliteReader(file).position() == 5

for kib in random.Random(1).sample(range(1, 120), 40):
    for old in place.glob("*"):
        old.is_file() and old.unlink()
    assert child(lives) == 0
    file.with_name("store.db-shm").unlink()
    disk = os.statvfs(place)
    filling.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - kib * 1024)))
    ended = child(writes if kind == "writes" else reads)
    assert ended in ((0, 9) if kind == "writes" else (0,)), (kib, ended)
    filling.unlink()
    with SqliteReader(file) as store:
        assert store.position() >= 5
"""


@pytest.mark.parametrize("kind", ["writes", "reads"])
def test_a_disk_without_room_for_the_index_is_a_sentence(
    kind: str, tmp_path: Path, mounted: Callable[..., Path], needs: Callable[[str, str], None]
) -> None:
    """Blocks smaller than a page: what SQLite maps is on the disk only in part, and to write the rest would be SIGBUS.
    A reader that is alone does without an index."""
    needs("mkfs.ext4", "install e2fsprogs")
    image = tmp_path / "disk"
    subprocess.run(["truncate", "-s", "3M", str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "1024", "-O", "^has_journal", str(image)], check=True)
    place = mounted("-o", "loop", str(image))

    found = subprocess.run(
        [sys.executable, "-c", LEVELS, str(place), kind], capture_output=True, text=True, timeout=100, check=False
    )

    assert found.returncode == 0, found.stdout + found.stderr

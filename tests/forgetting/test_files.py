"""The databases and text files of a home without a person's words."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from conch.experience import store_location
from conch.forgetting import Needle
from conch.forgetting.files import files_left, held_files, remove_from
from conch.forgetting.request import read_request, remove_unwritten
from conch.home import Home
from conch.snapshots import SNAPSHOTS, SnapshotShelf
from conch.snapshots.shelf import packed
from conch.tools.notes import Notes

WORDS = Needle(texts=("Roswitha Käsebier",))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    made = Home(tmp_path / "home")
    made.make()
    return made


def cleaned(home: Home) -> dict[str, int]:
    """What was found and removed: rows or lines by file name."""
    found = list(held_files(home, store_location(None, home.path), WORDS))
    for one in found:
        remove_from(home, one, WORDS)
    return {one.path.name: one.number for one in found}


def test_lines_with_the_words_go_and_others_stay(home: Home) -> None:
    """The file keeps its rights; a link that leads elsewhere is left alone."""
    file = home.path / "people.csv"
    file.write_text("name,town\nRoswitha Käsebier,Ulm\nAnna,Ulm\n")
    file.chmod(0o640)
    outside = home.path.parent / "outside.txt"
    outside.write_text("Roswitha Käsebier\n")
    (home.path / "link.txt").symlink_to(outside)

    assert cleaned(home) == {"people.csv": 1}
    assert file.read_text() == "name,town\nAnna,Ulm\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert outside.read_text() == "Roswitha Käsebier\n"


def test_a_json_file_stays_one(home: Home) -> None:
    """The string goes, the document is still read."""
    file = home.path / "notes.json"
    file.write_text(json.dumps({"by": "Roswitha Käsebier", "number": 3}))

    cleaned(home)

    assert json.loads(file.read_text()) == {"by": "removed at a person's request", "number": 3}


def test_a_log_keeps_its_length_and_its_place(home: Home) -> None:
    """A run has it open, and goes on at its end: the line becomes blank."""
    file = home.logs / "agent.log"
    file.write_bytes(b"one\r\nRoswitha K\xc3\xa4sebier was here\r\ntwo\r\n")
    size, inode = file.stat().st_size, file.stat().st_ino

    cleaned(home)

    assert (file.stat().st_size, file.stat().st_ino) == (size, inode)
    assert file.read_bytes().split() == [b"one", b"two"]


def test_a_database_holds_the_words_in_no_page(home: Home) -> None:
    """Nor does its full-text index, which says where single words stood; other notes are still found."""
    agent = home.agent_dir("echo")
    agent.mkdir(parents=True)
    notes = Notes(agent / "notes.db")
    notes.remember("Roswitha Käsebier lives in Ulm")
    notes.remember("Tides are high")
    notes.close()

    assert cleaned(home) == {"notes.db": 1}
    assert b"roswitha" not in (agent / "notes.db").read_bytes().lower()
    with sqlite3.connect(agent / "notes.db") as db:
        assert db.execute("SELECT count(*) FROM words WHERE words MATCH 'tides'").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM words WHERE words MATCH 'ulm'").fetchone() == (0,)
    db.close()


def test_a_row_that_was_deleted_before_is_rewritten_away(home: Home) -> None:
    """A page of the file keeps it until it is used again."""
    file = home.path / "old.db"
    db = sqlite3.connect(file)
    db.execute("PRAGMA secure_delete = OFF")
    db.execute("CREATE TABLE notes (text)")
    db.execute("INSERT INTO notes VALUES ('Roswitha Käsebier')")
    db.commit()
    db.execute("DELETE FROM notes")
    db.commit()
    db.close()
    assert files_left(home, WORDS) == ["old.db"]

    cleaned(home)

    assert files_left(home, WORDS) == []


def test_what_is_not_changed_is_named(home: Home) -> None:
    """The configuration is the user's; of a file that is no text nothing can be cut out."""
    home.config_file.write_text("goals: [greet Roswitha Käsebier]\n")
    (home.path / "weights.npz").write_bytes(b"\0\1Roswitha K\xc3\xa4sebier")

    assert cleaned(home) == {}
    assert files_left(home, WORDS) == ["conch.yaml", "weights.npz"]


@pytest.mark.parametrize("kept", [bytes, packed])
def test_kept_workspaces_with_the_words_are_removed_whole(home: Home, kept: Callable[[bytes], bytes]) -> None:
    """A content of a file as it is, and a compressed decision: forks of these cycles are not possible any more."""
    home.agentuid("echo")
    shelf = SnapshotShelf(home.agent_dir("echo") / SNAPSHOTS)
    shelf.objects.mkdir(parents=True)
    (shelf.objects / "one").write_bytes(kept(f"x {WORDS.texts[0]} x".encode()))

    [held] = held_files(home, store_location(None, home.path), WORDS)
    assert (held.path, held.number) == (shelf.folder, 1)
    remove_from(home, held, WORDS)
    assert not shelf.folder.exists()
    assert list(held_files(home, store_location(None, home.path), WORDS)) == []


def test_a_request_that_was_done_and_not_removed_is_none(home: Home) -> None:
    """A kill behind the overwriting leaves a blank file: nothing is left to do."""
    home.forget_file.write_bytes(b"   ")
    assert read_request(home) is None
    assert not home.forget_file.exists()


def test_what_a_killed_process_left_of_a_request_is_removed(home: Home) -> None:
    """Its words are not to stay; the file of a process that is alive is its own."""
    dead, alive = (home.path / f".{home.forget_file.name}.{pid}" for pid in (2**22 + 1, os.getpid()))
    for file in (dead, alive):
        file.write_text("Roswitha")
    remove_unwritten(home)
    assert (dead.exists(), alive.exists()) == (False, True)

"""Notes: kept once, bounded, found by words, whatever the words are."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import StoreError, ToolError
from conch.tools import FilePool, Notes
from conch.tools.file_pool import most_open


def test_the_best_note_comes_first(notes: Notes) -> None:
    """The note that shares most words leads; without words the latest do."""
    for text in ("the parser lives in conch/actions", "the bus is NATS", "the parser of the bus is slow"):
        notes.remember(text)

    assert notes.recall("PARSER bus")[0] == "the parser of the bus is slow"
    assert notes.recall("nats") == ("the bus is NATS",)
    assert notes.recall("?!", limit=2) == ("the parser of the bus is slow", "the bus is NATS")


def test_a_note_is_kept_once(notes: Notes) -> None:
    """The same words twice are one note."""
    assert notes.remember(" x ")
    assert not notes.remember("x")
    assert len(notes) == 1


def test_notes_outlive_the_process(tmp_path: Path) -> None:
    """What was remembered is there after closing and opening; closing twice is closing once."""
    first = Notes(tmp_path / "n.db")
    first.remember("kept")
    first.close()
    first.close()

    with Notes(tmp_path / "n.db") as second:
        assert second.recall("kept") == ("kept",)
    with pytest.raises(StoreError, match="closed"):
        second.recall("kept")
    with pytest.raises(StoreError, match="closed"):
        second.remember("more")


def test_the_oldest_make_room(tmp_path: Path) -> None:
    """Beyond the limit the oldest notes go, from the index too."""
    with Notes(tmp_path / "n.db", limit=3) as notes:
        for number in range(6):
            notes.remember(f"note number{number}")

        assert len(notes) == 3
        assert notes.recall("number0 number2") == ()
        assert notes.recall("number3") == ("note number3",)


def test_a_note_has_a_size(notes: Notes) -> None:
    """No text and too much text are refused."""
    for text in ("", " \n", "x" * 4001):
        with pytest.raises(ToolError):
            notes.remember(text)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """A corrupt file, or one that cannot be made, is an error that says which and what to do."""
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"this is no database" * 500)

    with pytest.raises(StoreError, match=r"bad\.db cannot be used: .*; move the file away"):
        Notes(bad)
    with pytest.raises(StoreError, match="look after the file and its directory"):
        Notes(tmp_path / "none" / "n.db")


@given(st.text(), st.text(max_size=200))
def test_no_text_breaks_the_search(note: str, query: str) -> None:
    """Quotes, operators, surrogates and NUL in a note or a query are only text."""
    with Notes(":memory:") as notes:
        notes.remember(f"x {note}"[:4000])

        assert isinstance(notes.recall(query), tuple)
        assert len(notes.recall(f'x" OR * NEAR( {query}')) == 1


def test_a_shelf_opens_what_is_used_and_makes_no_file_for_nothing(tmp_path: Path) -> None:
    """Looking for a note where there was never one leaves no file; the first note makes it."""
    notes = Notes(tmp_path / "n.db", shelf=FilePool())

    assert notes.recall("anything") == ()
    assert not (tmp_path / "n.db").exists()
    notes.remember("one note")
    assert notes.recall("note") == ("one note",)


def test_a_shelf_keeps_few_files_open_and_loses_nothing(tmp_path: Path) -> None:
    """However many agents take notes in turn: those used last are open, the others opened again."""
    shelf = FilePool(most=3)
    several = [Notes(tmp_path / f"{number}.db", shelf=shelf) for number in range(10)]
    for turn in range(3):
        for number, notes in enumerate(several):
            notes.remember(f"turn{turn} of number{number}")

    assert len([file for file in Path("/proc/self/fd").iterdir() if _leads_to(file, tmp_path)]) <= 3 * 3
    for number, notes in enumerate(several):
        assert notes.recall(f"number{number}", 9) == tuple(f"turn{turn} of number{number}" for turn in (2, 1, 0))
        notes.close()


def test_a_shelf_keeps_fewer_files_open_where_a_process_may_open_few() -> None:
    """A sixteenth of the limit: a file of SQLite takes three descriptors, and there are three pools."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for limit, most in ((48, 3), (600, 37), (4096, 256), (8, 2)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 8), hard))
            assert most_open() == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _leads_to(descriptor: Path, directory: Path) -> bool:
    try:
        return descriptor.readlink().is_relative_to(directory)
    except OSError:
        return False


def test_notes_on_a_shelf_that_are_broken_say_so_when_they_are_used(tmp_path: Path) -> None:
    """Nobody else on the shelf is troubled."""
    shelf = FilePool()
    (tmp_path / "bad.db").write_bytes(b"this is no database" * 500)
    bad, good = Notes(tmp_path / "bad.db", shelf=shelf), Notes(tmp_path / "good.db", shelf=shelf)

    with pytest.raises(StoreError, match=r"bad\.db cannot be used"):
        bad.recall("anything")
    assert good.remember("fine")

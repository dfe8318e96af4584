"""The SQLite file: readers beside the writer, what is refused and how, the cost of a fact."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.errors import StoreError
from conch.experience import CycleFilter, SqliteReader, SqliteStore

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def filled(path: Path, facts: Any, shared_events: Any, cycles: int = 30) -> bytes:
    """A store with some cycles, closed; its bytes."""
    with SqliteStore(path) as store:
        shared_events(store, facts.weights())
        for n in range(1, cycles + 1):
            shared_events(store, *facts.cycle(n))
    return path.read_bytes()


def test_a_store_opened_again_goes_on(path: Path, facts: Facts, shared_events: Apply) -> None:
    """Rows, position, epoch and outbox outlive the process."""
    with SqliteStore(path) as store:
        store.set_epoch("e")
        (experience,) = shared_events(store, facts.weights(), *facts.judged(1))

    with SqliteStore(path) as store:
        assert (store.position(), store.epoch()) == (5, "e")
        assert store.cycles.last(None, 9) == [experience]
        assert store.unpublished() == (experience,)


def test_every_commit_is_on_disk(path: Path) -> None:
    """The writer keeps a write-ahead log and syncs each transaction."""
    with SqliteStore(path) as store:
        assert store._file.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._file.db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_an_interrupted_read_is_no_damage(path: Path, facts: Facts, shared_events: Apply) -> None:
    """Ctrl-C while a body is unpacked ends the command: it does not say that the store is damaged."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    filled(path, facts, shared_events)
    with SqliteReader(path) as reader:
        reader._file.db.create_function("unpacked", 1, interrupt)  # type: ignore[attr-defined]

        with pytest.raises(KeyboardInterrupt):
            reader.cycles.last("echo", 9)


def test_readers_see_each_commit_while_a_writer_runs(path: Path, facts: Facts, shared_events: Apply) -> None:
    """A reader's connection sees what was committed, never what is half written, and blocks nobody."""
    with SqliteStore(path) as store, SqliteReader(path) as reader:
        shared_events(store, facts.weights(), *facts.cycle(1), facts.mark(2))
        walk = reader.chain.marks("echo")
        next(walk)
        (experience,) = shared_events(store, *facts.judged(2))

        assert reader.cycles.last("echo", 9)[-1] == experience
        assert [mark.sequence for mark in walk] == [1]
        store._file.db.execute("BEGIN IMMEDIATE")
        assert reader.position() == store.position()
        store._file.db.execute("ROLLBACK")


def test_a_reader_needs_no_writer(path: Path, facts: Facts, shared_events: Apply) -> None:
    """A closed store is read as it is, and reading changes nothing."""
    before = filled(path, facts, shared_events, cycles=2)

    with SqliteReader(path) as reader:
        assert [e.cycle for e in reader.cycles.last("echo", 9)] == [1, 2]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._file.db.execute("DELETE FROM acts")

    assert path.read_bytes() == before


def test_reading_what_is_not_there_says_so(path: Path) -> None:
    """No store and an empty file are told apart from a damaged one, and none is made."""
    with pytest.raises(StoreError, match=r"no experience store at .*start a run"):
        SqliteReader(path)
    assert not path.exists()

    path.touch()
    with pytest.raises(StoreError, match="holds nothing yet"):
        SqliteReader(path)


def test_the_writer_may_live_in_another_thread(path: Path, facts: Facts, shared_events: Apply) -> None:
    """A store made here is used there, one thread at a time."""
    with SqliteStore(path) as store:
        worker = threading.Thread(target=shared_events, args=(store, facts.weights(), *facts.judged(1)))
        worker.start()
        worker.join()

        assert store.cycles.last_cycle("echo") == 1


def test_a_path_is_no_address(tmp_path: Path, facts: Facts, shared_events: Apply) -> None:
    """Signs that mean something in an address mean nothing in a store's path."""
    path = tmp_path / "a ?mode=ro&b#c%20ü.db"

    filled(path, facts, shared_events, cycles=1)

    assert path.exists()
    assert not (tmp_path / "a ").exists()


def _nothing_like_it(good: bytes) -> bytes:
    return b"These are no rows.\n" * 500


def _cut_short(good: bytes) -> bytes:
    return good[: len(good) // 2]


def _cut_within_the_header(good: bytes) -> bytes:
    return good[:50]


def _zeros_in_the_middle(good: bytes) -> bytes:
    return good[:4096] + bytes(len(good) - 4096)


@pytest.mark.parametrize("break_it", [_nothing_like_it, _cut_short, _cut_within_the_header, _zeros_in_the_middle])
def test_a_damaged_file_is_named_and_left_alone(path: Path, facts: Facts, shared_events: Apply, break_it: Any) -> None:
    """Each use of a damaged file ends in one sentence that says where it is and what to do; no byte of it changes."""
    broken = break_it(filled(path, facts, shared_events))
    path.write_bytes(broken)

    for use in (_write, _read):
        with pytest.raises(StoreError, match=r"store\.db is damaged \(.*\): move it aside and run again"):
            use(path, facts, shared_events)

    assert path.read_bytes() == broken


def _write(path: Path, facts: Any, shared_events: Any) -> None:
    with SqliteStore(path) as store:
        shared_events(store, *facts.cycle(31))


def _read(path: Path, facts: Any, shared_events: Any) -> None:
    with SqliteReader(path) as reader:
        reader.cycles.last("echo", 50)


def test_a_row_that_was_made_unreadable_is_damage(path: Path, facts: Facts, shared_events: Apply) -> None:
    """Rows that are no events, no verdicts, or of another page, raise StoreError where they are read."""
    filled(path, facts, shared_events, cycles=4)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE acts SET body = 'nonsense' WHERE cycle = 1")
        other.execute("UPDATE experiences SET verdict = '{}' WHERE cycle = 2")
        other.execute("UPDATE experiences SET total = 'much' WHERE cycle = 3")
        other.execute("UPDATE contexts SET kind = 'th/ught' WHERE kind = 'thought'")
        other.commit()

    with SqliteReader(path) as reader:
        for cycle in (1, 2, 4):
            with pytest.raises(StoreError, match="is damaged"):
                reader.cycles.get("echo", cycle)
        with pytest.raises(StoreError, match="is damaged"):
            list(reader.examples.marks())
        with pytest.raises(StoreError, match="is damaged"):
            reader.charts.component_stats("echo")
        with pytest.raises(StoreError, match="is damaged"):
            reader.charts.points("echo", 9)
        with pytest.raises(StoreError, match="is damaged"):
            reader.cycles.find("echo", CycleFilter(text="rest"), 9)


def test_a_text_that_is_no_utf_8_is_damage(path: Path, facts: Facts, shared_events: Apply) -> None:
    """Of a page that was torn: the sentence says what to do."""
    filled(path, facts, shared_events, cycles=1)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE acts SET agent = CAST(x'61ff62' AS TEXT)")
        other.commit()

    with SqliteReader(path) as reader, pytest.raises(StoreError, match=r"is damaged \(Could not decode"):
        reader.agents()


def test_somebody_elses_database_is_refused(path: Path) -> None:
    """A database that is not ours is never written to."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (x)")

    for use in (SqliteStore, SqliteReader):
        with pytest.raises(StoreError, match="not an experience store"):
            use(path)


def test_a_newer_store_is_refused(path: Path, facts: Facts, shared_events: Apply) -> None:
    """A store written by a newer version is refused with both numbers and kept."""
    filled(path, facts, shared_events, cycles=1)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")

    for use in (SqliteStore, SqliteReader):
        with pytest.raises(StoreError, match=r"newer Conch.*schema 99"):
            use(path)


def test_a_locked_store_is_waited_for_and_then_named(path: Path, facts: Facts, shared_events: Apply) -> None:
    """Another writer in the middle of a transaction: a sentence after the timeout, and then all goes on."""
    with SqliteStore(path, timeout=0.01) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="being written by another process"):
            shared_events(store, facts.weights(), *facts.judged(1))
        other.execute("ROLLBACK")

        assert len(shared_events(store, facts.weights(), *facts.judged(1))) == 1


def test_a_full_disk_loses_nothing(path: Path, facts: Facts, shared_events: Apply) -> None:
    """Without room a batch is refused whole; with room again the same batch goes in."""
    with SqliteStore(path) as store:
        shared_events(store, facts.weights(), *facts.judged(1))
        pages = store._file.db.execute("PRAGMA page_count").fetchone()[0]
        store._file.db.execute(f"PRAGMA max_page_count = {pages}")
        big = facts.decided(2, prompt="x" * 100_000)
        with pytest.raises(StoreError, match=r"disk is full.*make room"):
            shared_events(store, big, *facts.judged(2))
        kept = (store.position(), store.cycles.last_cycle("echo"))
        store._file.db.execute("PRAGMA max_page_count = 1000000")

        assert kept == (5, 1)
        assert len(shared_events(store, big, *facts.judged(2))) == 1


@pytest.fixture
def powerless() -> Iterator[Path]:
    """A directory that may be entered and read, not written."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        yield home
        if os.geteuid() != os.getuid():
            os.seteuid(os.getuid())
        home.chmod(0o755)


def test_a_read_only_store_is_named(powerless: Path, facts: Facts, shared_events: Apply) -> None:
    """A file that may not be written is a sentence about that, not about damage."""
    path = powerless / "store.db"
    filled(path, facts, shared_events, cycles=1)
    path.chmod(0o444)
    powerless.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(65534)

    with pytest.raises(StoreError, match=r"store\.db cannot be used .*may be written"):
        _write(path, facts, shared_events)


def test_a_directory_in_its_place_is_named(tmp_path: Path) -> None:
    """A path that cannot be opened is a sentence with the path."""
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(tmp_path)


def test_a_fact_costs_the_same_however_many_there_are(path: Path, facts: Facts, shared_events: Apply) -> None:
    """No statement of the store reads a table from end to end: each finds its rows through an index."""
    statements: set[str] = set()
    with SqliteStore(path) as store:
        store._file.db.set_trace_callback(statements.add)
        shared_events(store, facts.weights(), *facts.cycle(1), *facts.judged(2))
        shared_events(store, facts.reward(1, facts.score("joy", 1.0, "joy"), scorer="joy"), facts.act(3), facts.act(40))
        shared_events(store, facts.weights(facts.parts, "w2"))
        store.expire(facts.at(99))
        store.mark_published([store.unpublished()[0].id])
        _read_everything(store)
        store._file.db.set_trace_callback(None)
        plans = [(row[3], sql) for sql in statements if _is_query(sql) for row in _plan(store._file.db, sql)]

    scans = {step for step, _ in plans if step.startswith("SCAN")}
    # In the order of an index or of the rows, up to a limit; and those that wait, which are few.
    assert scans <= {
        "SCAN e USING INDEX experiences_by_seq",
        "SCAN experiences USING INDEX experiences_by_seq",
        "SCAN outbox",
        "SCAN removed_totals USING INDEX removed_totals_by_seq",
        "SCAN acts USING COVERING INDEX acts_by_due",
        "SCAN acts USING INDEX acts_by_due",
        "SCAN CONSTANT ROW",
    }
    assert not [sql for step, sql in plans if "TEMP B-TREE" in step]
    all_of_an_agent = [sql for step, sql in plans if "(agent=?)" in step]
    assert not [sql for sql in all_of_an_agent if "LIMIT" not in sql and "max(" not in sql]
    assert len(plans) > 20


def _is_query(sql: str) -> bool:
    return sql.lstrip().split(maxsplit=1)[0] in {"SELECT", "UPDATE", "DELETE"}


def _plan(db: sqlite3.Connection, sql: str) -> list[Any]:
    return db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()


def _read_everything(store: SqliteStore) -> None:
    for agent in ("echo", None):
        store.cycles.last(agent, 9)
        store.charts.component_stats(agent)
        store.charts.figures(agent)
        store.cycles.pending(agent)
    store.cycles.last("echo", 9, 2)
    store.cycles.get("echo", 1)
    store.cycles.last_cycle("echo")
    store.charts.needs_history("echo", 9)
    store.agents()
    list(store.chain.acts("echo"))
    list(store.chain.marks("echo"))


@pytest.mark.parametrize(("before", "after"), [(None, 0o600), (0o644, 0o600), (0o444, 0o400), (0o640, 0o640)])
def test_a_store_is_open_to_its_owner_alone(
    tmp_path: Path, facts: Facts, shared_events: Apply, before: int | None, after: int
) -> None:
    """A new one, and one that everybody could read; a group that was let in stays."""
    path = tmp_path / "store.db"
    if before is not None:
        filled(path, facts, shared_events, cycles=1)
        path.chmod(before)

    with suppress(StoreError), SqliteStore(path):
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}

    assert path.stat().st_mode & 0o777 == after
    assert before is not None or set(modes.values()) == {0o600}


def test_a_database_of_somebody_else_keeps_its_mode(tmp_path: Path) -> None:
    """What is no store of ours is refused as it is; so is a directory."""
    (tmp_path / "store.db").write_text("not ours, and long enough to be no empty database " * 40)
    (tmp_path / "store.db").chmod(0o644)
    (tmp_path / "directory").mkdir(mode=0o755)

    for name in ("store.db", "directory"):
        with pytest.raises(StoreError):
            SqliteStore(tmp_path / name)

    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("store.db", "directory")] == [0o644, 0o755]

"""A store of before: its file is brought up where it is opened, and says what it said."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from conch.errors import StoreError
from conch.experience import SqliteReader, SqliteStore, schema

VERSION_1 = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE acts (action_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, cycle INTEGER NOT NULL,
       started REAL NOT NULL, due REAL, body BLOB NOT NULL)""",
    "CREATE INDEX acts_by_cycle ON acts (agent, cycle, action_id)",
    "CREATE INDEX acts_by_seq ON acts (agent, seq)",
    "CREATE INDEX acts_by_due ON acts (due) WHERE due IS NOT NULL",
    """CREATE TABLE scores (action_id TEXT, scorer TEXT, version TEXT, component TEXT, seq INTEGER NOT NULL,
       status TEXT NOT NULL, value REAL, low REAL NOT NULL, high REAL NOT NULL, explanation TEXT NOT NULL,
       PRIMARY KEY (action_id, scorer, version, component)) WITHOUT ROWID""",
    """CREATE TABLE contexts (action_id TEXT, kind TEXT, seq INTEGER NOT NULL, body BLOB NOT NULL,
       PRIMARY KEY (action_id, kind))""",
    """CREATE TABLE needs (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, action_id TEXT,
       body BLOB NOT NULL)""",
    "CREATE INDEX needs_by_seq ON needs (agent, seq)",
    "CREATE INDEX needs_by_action ON needs (action_id, seq) WHERE action_id IS NOT NULL",
    "CREATE TABLE weights (agent TEXT, seq INTEGER, body BLOB NOT NULL, PRIMARY KEY (agent, seq))",
    """CREATE TABLE marks (id TEXT, hash TEXT, agent TEXT NOT NULL, sequence INTEGER NOT NULL, seq INTEGER NOT NULL,
       body BLOB NOT NULL, PRIMARY KEY (id, hash))""",
    "CREATE INDEX marks_by_sequence ON marks (agent, sequence, seq)",
    """CREATE TABLE experiences (action_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL,
       cycle INTEGER NOT NULL, revision INTEGER NOT NULL, recorded TEXT NOT NULL, outcome TEXT NOT NULL,
       verdict BLOB NOT NULL)""",
    "CREATE INDEX experiences_by_cycle ON experiences (agent, cycle, seq)",
    "CREATE INDEX experiences_by_seq ON experiences (seq)",
    "CREATE TABLE outbox (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
)
TO_VERSION_1 = (
    *VERSION_1,
    "INSERT INTO meta SELECT * FROM new.meta WHERE name <> 'numbered'",
    "INSERT INTO acts SELECT action_id, seq, agent, cycle, started, due, body FROM new.acts",
    """INSERT INTO scores SELECT action_id, scorer, version, component, seq, status, value, low, high, explanation
       FROM new.scores JOIN new.actions USING (act)""",
    "INSERT INTO contexts SELECT action_id, kind, seq, body FROM new.contexts JOIN new.actions USING (act)",
    "INSERT INTO needs SELECT id, seq, agent, action_id, body FROM new.needs LEFT JOIN new.actions USING (act)",
    "INSERT INTO weights SELECT * FROM new.weights",
    "INSERT INTO marks SELECT id, hash, agent, sequence, seq, body FROM new.marks",
    """INSERT INTO experiences SELECT action_id, seq, agent, cycle, revision, recorded, outcome, verdict
       FROM new.experiences JOIN new.actions USING (act)""",
    "INSERT INTO outbox SELECT * FROM new.outbox",
    "PRAGMA application_id = 1129202520",
    "PRAGMA user_version = 1",
)
TO_VERSION_3 = (
    "DROP TABLE removals",
    "DROP TABLE removed_totals",
    "DROP TABLE removed_outcomes",
    "DROP TABLE removed_components",
    "DROP TABLE removed_scores",
    "PRAGMA user_version = 3",
)
TO_VERSION_2 = (
    *TO_VERSION_3,
    "DROP INDEX experiences_by_cycle",
    "DROP INDEX experiences_by_seq",
    "ALTER TABLE experiences RENAME TO later",
    """CREATE TABLE experiences (
       act INTEGER PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, cycle INTEGER NOT NULL,
       revision INTEGER NOT NULL, recorded TEXT NOT NULL, outcome TEXT NOT NULL, verdict BLOB NOT NULL)""",
    "CREATE INDEX experiences_by_cycle ON experiences (agent, cycle, seq)",
    "CREATE INDEX experiences_by_seq ON experiences (seq)",
    "INSERT INTO experiences SELECT act, seq, agent, cycle, revision, recorded, outcome, verdict FROM later",
    "DROP TABLE later",
    "PRAGMA user_version = 2",
)


REWRITTEN = pytest.mark.parametrize("old", [1, 2], indirect=True)
"""Versions whose rows are rewritten; version 3 only gains tables."""


def a_life(store: SqliteStore, facts: Any, shared_events: Any) -> None:
    """Two agents, an act that waits, a score whose act has not come, a change of needs that belongs to no action."""
    outside = facts.needs(9).model_copy(update={"id": "n", "action_id": None, "cycle": None, "score": None})
    shared_events(store, facts.weights(), facts.weights(agent="delta"), *facts.cycle(1), *facts.cycle(2), outside)
    shared_events(store, *facts.judged(7, agent="delta"), now=facts.at(7))
    shared_events(store, facts.act(8), facts.reward(9), now=facts.at(8))


def told(store: SqliteReader) -> list[Any]:
    """Everything that a store says."""
    return [
        store.position(),
        store.agents(),
        store.pending(),
        *(store.cycles(agent, 99) for agent in ("echo", "delta", None)),
        *(store.points(agent, 99) for agent in ("echo", "delta")),
        *(store.tallies(agent, 99) for agent in ("echo", "delta")),
        *(list(store.marks(agent)) for agent in ("echo", "delta")),
        *(store.marks_of("echo", action) for action, _ in store.acts("echo")),
        *(store.needs_history(agent, 99) for agent in ("echo", "delta")),
        *(store.score_sets(agent) for agent in ("echo", "delta")),
        store.component_stats(),
    ]


@pytest.fixture(params=[1, 2, 3])
def old(request: pytest.FixtureRequest, tmp_path: Path, facts: Any, shared_events: Any) -> tuple[Path, list[Any]]:
    """A file of each version before, and what it says."""
    new, path = tmp_path / "new.db", tmp_path / "old.db"
    with SqliteStore(new) as store:
        a_life(store, facts, shared_events)
        said = told(store)
    if request.param > 1:
        copyfile(new, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("ATTACH ? AS new", (str(new),))
        for statement in {1: TO_VERSION_1, 2: TO_VERSION_2, 3: TO_VERSION_3}[request.param]:
            db.execute(statement)
    return path, said


@pytest.mark.parametrize("kind", [SqliteStore, SqliteReader])
def test_a_store_of_before_says_what_it_said(old: tuple[Path, list[Any]], kind: Any) -> None:
    """Whether it is opened to write or to read, nothing of it is lost, and the second time it is as it was."""
    path, said = old

    for _ in range(2):
        with kind(path) as store:
            assert told(store) == said
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'old%'").fetchone() == (0,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_store_of_before_goes_on(old: tuple[Path, list[Any]], facts: Any, shared_events: Any) -> None:
    """What it knew is known, what it waited for completes it."""
    path, _ = old

    with SqliteStore(path) as store:
        again = shared_events(store, *facts.cycle(1))
        (eighth,) = shared_events(store, facts.reward(8), facts.needs(8), facts.novelty(8), now=facts.at(8))
        (ninth,) = shared_events(store, facts.act(9), facts.needs(9), facts.novelty(9), now=facts.at(9))

        assert (again, store.duplicates) == ((), len(facts.cycle(1)))
        assert (eighth.cycle, eighth.complete, ninth.cycle, ninth.complete) == (8, True, 9, True)


@REWRITTEN
def test_a_store_of_before_that_cannot_be_brought_up_stays_as_it_is(old: tuple[Path, list[Any]]) -> None:
    """One that is damaged is named, and not half of it is changed."""
    path, _ = old
    with closing(sqlite3.connect(path)) as db, db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute("DROP TABLE needs")

    with pytest.raises(StoreError, match="is damaged"):
        SqliteStore(path)

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        assert db.execute("SELECT count(*) FROM acts").fetchone() == (4,)


@REWRITTEN
@pytest.mark.parametrize("what", ["UPDATE acts SET body = 'nonsense'", "UPDATE experiences SET verdict = '{}'"])
def test_a_row_that_cannot_be_read_stops_the_bringing_up(old: tuple[Path, list[Any]], what: str) -> None:
    """It is named as damage, and the file stays as it is."""
    path, _ = old
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(what)

    with pytest.raises(StoreError, match="is damaged"):
        SqliteReader(path)

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'old%'").fetchone() == (0,)


@REWRITTEN
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_kill_half_way_leaves_the_store_of_before(
    old: tuple[Path, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens it next brings it up from the beginning, and nothing is missing."""
    path, said = old
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(schema, "act_columns", _killed)
        try:
            SqliteStore(path)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL

    with SqliteReader(path) as store:
        assert told(store) == said
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _killed(_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)

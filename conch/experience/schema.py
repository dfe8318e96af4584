"""The tables of the store's file, and how a file with the tables of before is brought to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from conch.experience.columns import act_columns, least_satisfied
from conch.experience.queries.bodies import stored_needs, stored_verdict
from conch_schemas import ActionTaken, ContractViolationError, decode

SCHEMA_VERSION: Final = 4

# Facts are kept as they came, one narrow table a kind: a primary key makes "twice is once" the database's own rule.
# `seq` is a fact's place: the stream's sequence, plus the meta value `base` since the stream was replaced.
# `act` is an action's number, given when it is first heard of. An action's id is as good as random: were it the key,
# the rows of every fact would lie scattered over all of the file, and a fact would cost more the more there are. By
# number all that is new stands at the end of its table; only the one row of `actions` is put somewhere in the middle.
_ACTIONS: Final = "CREATE TABLE actions (action_id TEXT PRIMARY KEY, act INTEGER NOT NULL) WITHOUT ROWID"
_REMOVAL_TABLES: Final = (
    # What was removed of an agent on a day, for one reason, in one row; marks are removed as a prefix of their chain.
    """CREATE TABLE removals (
        agent TEXT, day TEXT, why TEXT, first_cycle INTEGER NOT NULL, last_cycle INTEGER NOT NULL,
        acts INTEGER NOT NULL, acted REAL NOT NULL, time TEXT NOT NULL, first_mark INTEGER, last_mark INTEGER,
        marks INTEGER NOT NULL, hash TEXT, PRIMARY KEY (agent, day, why)) WITHOUT ROWID""",
    # Sums over removed experiences, by blocks of cycles. `seq` is the place of the newest one in the block.
    """CREATE TABLE removed_totals (
        agent TEXT, block INTEGER, seq INTEGER NOT NULL, acts INTEGER NOT NULL, total REAL NOT NULL,
        squares REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, coverage REAL NOT NULL,
        incomplete INTEGER NOT NULL, PRIMARY KEY (agent, block)) WITHOUT ROWID""",
    "CREATE INDEX removed_totals_by_seq ON removed_totals (seq)",
    """CREATE TABLE removed_outcomes (
        agent TEXT, block INTEGER, outcome TEXT, acts INTEGER NOT NULL,
        PRIMARY KEY (agent, block, outcome)) WITHOUT ROWID""",
    """CREATE TABLE removed_components (
        agent TEXT, block INTEGER, component TEXT, scorer TEXT, version TEXT NOT NULL, weight REAL NOT NULL,
        count INTEGER NOT NULL, scored INTEGER NOT NULL, total REAL NOT NULL, squares REAL NOT NULL, low REAL,
        high REAL, errors INTEGER NOT NULL, timeouts INTEGER NOT NULL, unasked INTEGER NOT NULL,
        PRIMARY KEY (agent, block, component, scorer)) WITHOUT ROWID""",
    # Of every score, whether it counted or not.
    """CREATE TABLE removed_scores (
        agent TEXT, component TEXT, scorer TEXT, version TEXT, count INTEGER NOT NULL, low REAL NOT NULL,
        high REAL NOT NULL, PRIMARY KEY (agent, component, scorer, version)) WITHOUT ROWID""",
)
"""New in version 4."""
TABLES: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    _ACTIONS,
    """CREATE TABLE acts (
        act INTEGER PRIMARY KEY, action_id TEXT NOT NULL, seq INTEGER NOT NULL, agent TEXT NOT NULL,
        cycle INTEGER NOT NULL, started REAL NOT NULL, due REAL, body BLOB NOT NULL)""",
    "CREATE INDEX acts_by_cycle ON acts (agent, cycle, action_id)",
    "CREATE INDEX acts_by_seq ON acts (agent, seq)",
    "CREATE INDEX acts_by_due ON acts (due) WHERE due IS NOT NULL",
    """CREATE TABLE scores (
        act INTEGER, scorer TEXT, version TEXT, component TEXT, seq INTEGER NOT NULL, status TEXT NOT NULL,
        value REAL, low REAL NOT NULL, high REAL NOT NULL, explanation TEXT NOT NULL,
        PRIMARY KEY (act, scorer, version, component)) WITHOUT ROWID""",
    """CREATE TABLE contexts (
        act INTEGER, kind TEXT, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (act, kind))""",
    # A change of needs that belongs to no action has the act 0.
    """CREATE TABLE needs (
        act INTEGER, id TEXT, seq INTEGER NOT NULL, agent TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (act, id))""",
    "CREATE INDEX needs_by_seq ON needs (agent, seq)",
    "CREATE TABLE weights (agent TEXT, seq INTEGER, body BLOB NOT NULL, PRIMARY KEY (agent, seq))",
    """CREATE TABLE marks (
        agent TEXT, sequence INTEGER, id TEXT, hash TEXT, seq INTEGER NOT NULL, act INTEGER, body BLOB NOT NULL,
        PRIMARY KEY (agent, sequence, id, hash))""",
    "CREATE INDEX marks_by_act ON marks (act) WHERE act IS NOT NULL",
    """CREATE TABLE experiences (
        act INTEGER PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, cycle INTEGER NOT NULL,
        outcome TEXT NOT NULL, kind TEXT NOT NULL, tool TEXT, skill TEXT NOT NULL, valid INTEGER NOT NULL,
        acted REAL NOT NULL, revision INTEGER NOT NULL, recorded TEXT NOT NULL, need TEXT,
        total REAL NOT NULL, coverage REAL NOT NULL, complete INTEGER NOT NULL, verdict BLOB NOT NULL)""",
    # With all that filters ask for: a filter that nothing passes reads the index, not the verdicts.
    """CREATE INDEX experiences_by_cycle ON experiences (
        agent, cycle, seq, outcome, kind, tool, skill, need, complete, total)""",
    "CREATE INDEX experiences_by_seq ON experiences (seq)",
    "CREATE TABLE outbox (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
    *_REMOVAL_TABLES,
)

_MOVED: Final = ("acts", "scores", "contexts", "needs", "marks", "experiences")
"""Tables of version 1 that named the action by its id. The others are the same."""

_INDICES: Final = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
_NUMBERED: Final = """
    INSERT INTO actions SELECT action_id, row_number() OVER (ORDER BY min(seq), action_id) FROM (
        SELECT action_id, seq FROM old_acts UNION ALL SELECT action_id, seq FROM old_scores
        UNION ALL SELECT action_id, seq FROM old_contexts
        UNION ALL SELECT action_id, seq FROM old_needs WHERE action_id IS NOT NULL) GROUP BY action_id"""
_COPIES: Final = (
    """INSERT INTO acts SELECT act, action_id, seq, agent, cycle, started, due, body
       FROM old_acts JOIN actions USING (action_id) ORDER BY act""",
    """INSERT INTO scores SELECT act, scorer, version, component, seq, status, value, low, high, explanation
       FROM old_scores JOIN actions USING (action_id) ORDER BY act""",
    "INSERT INTO contexts SELECT act, kind, seq, body FROM old_contexts JOIN actions USING (action_id) ORDER BY act",
    """INSERT INTO needs SELECT coalesce(act, 0), id, seq, agent, body
       FROM old_needs LEFT JOIN actions USING (action_id) ORDER BY seq""",
    """INSERT INTO marks SELECT agent, sequence, id, hash, seq,
       CASE WHEN json_valid(CAST(body AS TEXT)) THEN (SELECT act FROM actions
       WHERE action_id = json_extract(CAST(old_marks.body AS TEXT), '$.action_id')) END, body
       FROM old_marks ORDER BY seq""",
    "INSERT INTO meta SELECT 'numbered', coalesce(max(act), 0) FROM actions",
)


_BEFORE_COLUMNS: Final = """
    SELECT a.act, e.seq, e.agent, e.cycle, a.body, e.revision, e.recorded,
    (SELECT body FROM needs n WHERE n.act = a.act ORDER BY n.seq LIMIT 1), e.verdict FROM old_experiences e """
_NUMBERED_BEFORE: Final = f"{_BEFORE_COLUMNS} JOIN acts a ON a.act = e.act ORDER BY e.act"
_NAMED_BEFORE: Final = f"{_BEFORE_COLUMNS} JOIN actions USING (action_id) JOIN acts a USING (act) ORDER BY a.act"
_EXPERIENCE: Final = "INSERT INTO experiences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def bring_up(connection: sqlite3.Connection, version: int) -> None:
    """The tables as they are now with the rows of that version. Within the caller's transaction: all of it or nothing.

    Raises ContractViolationError or DecodeError where a row is not what was written.
    """
    for statement in _REMOVAL_TABLES:
        connection.execute(statement)
    if version == 3:
        return
    moved: tuple[str, ...] = _MOVED if version == 1 else ("experiences",)
    _renamed(connection, moved)
    if version == 1:
        for statement in (_ACTIONS, _NUMBERED, *_COPIES):
            connection.execute(statement)
    _spell_out(connection, _NAMED_BEFORE if version == 1 else _NUMBERED_BEFORE)
    for name in moved:
        connection.execute(f"DROP TABLE old_{name}")


def _renamed(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Put these tables aside, and make those there are now in their place."""
    for name in names:
        for (index,) in connection.execute(_INDICES, (name,)).fetchall():
            connection.execute(f"DROP INDEX {index}")
        connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
    for statement in TABLES:
        words = statement.split()
        if words[2 if words[1] == "TABLE" else 4] in names:
            connection.execute(statement)


def _spell_out(connection: sqlite3.Connection, before: str) -> None:
    """Rows of experiences with what was only in their facts."""
    connection.executemany(_EXPERIENCE, map(_spelled_out, connection.execute(before)))


def _spelled_out(row: Sequence[Any]) -> tuple[Any, ...]:
    act, seq, agent, cycle, body, revision, recorded, needs, verdict = row
    taken, shown = decode(body), stored_verdict(verdict)
    if not isinstance(taken, ActionTaken):
        raise ContractViolationError(f"{taken.TYPE} where {ActionTaken.TYPE} was stored")
    need = least_satisfied(stored_needs(needs).before) if needs else None
    figures = (shown.total, shown.coverage, shown.complete)
    return act, seq, agent, cycle, *act_columns(taken), revision, recorded, need, *figures, verdict

"""The tables of the store's file, their version, and the sentences on a store of another version."""

from __future__ import annotations

from typing import Final

from conch.version import describe_writer

SCHEMA_VERSION: Final = 8
OPENED_SINCE: Final = 4
"""The oldest schema that is opened. In 5 bodies are packed (`packing`), which a version that knows 4 cannot read; rows
from before stay as they are. In 6 experiences have the column `changed`, which a writer adds to an older file, and
`contexts` also holds corrections of answers (kind `correction:` and the place) and, under the act 0, system prompts
(kind `policy:` and the digest of the policy). 6 also has the tables of forks and of
reviews, 7 that of training, 8 an index of the acts that moved a goal."""
MIGRATED_BY: Final = "d6c4a2b"
"""The revision of the repository, the last one that opens a store of an older schema and rewrites it as one of
OPENED_SINCE."""
COPIED_BY: Final = "5e7efa5"
"""The last revision that opens a store of schema 6 in PostgreSQL, and copies it into a file."""

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
_REVIEWS: Final = (
    # Decisions outlive the acts of their rows: a snapshot that was exported is asked for by the hashes of its rows.
    """CREATE TABLE reviews (
        id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, row_id TEXT NOT NULL, action_id TEXT,
        body BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX reviews_by_seq ON reviews (seq)",
    "CREATE INDEX reviews_by_row ON reviews (row_id)",
    "CREATE INDEX reviews_by_action ON reviews (action_id) WHERE action_id IS NOT NULL",
)
"""New in version 6: persons' decisions on rows of training data."""
_FORKS: Final = (
    # Candidates of forks are no acts: nothing but `queries/forks.py` reads them.
    """CREATE TABLE forks (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, cycle INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX forks_by_cycle ON forks (agent, cycle, seq)",
    "CREATE INDEX forks_by_seq ON forks (seq)",
)
"""New in version 6."""
_TRAINING: Final = (
    # The history of adapters outlives the acts that they were trained on.
    """CREATE TABLE training (
        id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, round TEXT, body BLOB NOT NULL)""",
    "CREATE INDEX training_by_seq ON training (seq)",
    "CREATE INDEX training_by_round ON training (round) WHERE round IS NOT NULL",
)
"""New in version 7."""
_GOAL_MOVES: Final = (
    # Few acts move a goal: with their own index they are counted without a look at all scores.
    "CREATE INDEX scores_of_goals ON scores (act) WHERE component = 'goal' AND value > 0",
)
"""New in version 8."""
_BY_CHANGE: Final = "CREATE INDEX experiences_by_change ON experiences (changed) WHERE changed > 0"
ADDITIONS: Final = {
    6: ("ALTER TABLE experiences ADD COLUMN changed INTEGER NOT NULL DEFAULT 0", _BY_CHANGE, *_FORKS, *_REVIEWS),
    7: _TRAINING,
    8: _GOAL_MOVES,
}
"""The statements that make a file of the schema before one of this schema. `changed` is the number of the last change
of the row, as `meta` counts them under `changes`; 0 in rows that no version with the column has written."""
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
        total REAL NOT NULL, coverage REAL NOT NULL, complete INTEGER NOT NULL, verdict BLOB NOT NULL,
        changed INTEGER NOT NULL DEFAULT 0)""",
    _BY_CHANGE,
    # With all that filters ask for: a filter that nothing passes reads the index, not the verdicts.
    """CREATE INDEX experiences_by_cycle ON experiences (
        agent, cycle, seq, outcome, kind, tool, skill, need, complete, total)""",
    "CREATE INDEX experiences_by_seq ON experiences (seq)",
    "CREATE TABLE outbox (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
    *_REMOVAL_TABLES,
    *_FORKS,
    *_REVIEWS,
    *_TRAINING,
    *_GOAL_MOVES,
)
NAME_WRITER: Final = """INSERT INTO meta VALUES ('conch', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
    WHERE meta.value <> excluded.value"""
"""Writes down the version that opens the store to write; no row is written where that stands there."""
WRITER: Final = "SELECT value FROM meta WHERE name = 'conch'"
"""Gone in a store that no version since 0.2.0 has written."""


def describe_newer(store: str, schema: int, named: object) -> str:
    """The sentence on a store of a newer layout. `named`: what the store names as the version that wrote it."""
    writer, advice = describe_writer(named, "a newer Conch")
    return f"The experience store {store} was written by {writer} ({_describe_layouts(schema)}): {advice}."


def describe_older(store: str, schema: int, advice: str) -> str:
    """The sentence on a store of an older layout. `advice`: what to do."""
    return f"The experience store {store} was written by an older Conch ({_describe_layouts(schema)}): {advice}."


def _describe_layouts(schema: int) -> str:
    return f"schema {schema}, this one knows {SCHEMA_VERSION}"

"""The rows of one transaction, many to a statement.

A statement has its price however few rows it brings: Python's, SQLite's, and where threads work side by side the price
of the interpreter's lock, which is let go and asked for again around each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

Row = tuple[Any, ...]
T = TypeVar("T")

_PORTIONS: Final = (64, 8, 1)
"""Rows to a statement: few lengths, so that each statement is prepared once. SQLite takes 32,766 values since 3.32."""


class _InsertStatement(NamedTuple):
    """An insertion: what stands before and behind its rows, and how many values a row has."""

    head: str
    columns: int
    tail: str
    packs: bool = False
    """Whether the last value is an event's body, to be packed."""


# A fact that is there already stays, unless this one stands earlier in the stream: then any order of applying them
# ends in the same rows.
_EARLIER: Final = "WHERE excluded.seq < seq"
_ACTION: Final = _InsertStatement("INSERT INTO actions (action_id, act) VALUES", 2, "")
_ACT: Final = _InsertStatement(
    "INSERT INTO acts (act, action_id, seq, agent, cycle, started, due, body) VALUES",
    8,
    "ON CONFLICT DO UPDATE SET seq = excluded.seq, agent = excluded.agent, cycle = excluded.cycle, "
    f"due = excluded.due, body = excluded.body {_EARLIER}",
    packs=True,
)
_SCORE: Final = _InsertStatement(
    "INSERT INTO scores (act, scorer, version, component, seq, status, value, low, high, explanation) VALUES",
    10,
    "ON CONFLICT DO UPDATE SET seq = excluded.seq, status = excluded.status, value = excluded.value, "
    f"low = excluded.low, high = excluded.high, explanation = excluded.explanation {_EARLIER}",
)
_CONTEXT: Final = _InsertStatement(
    "INSERT INTO contexts (act, kind, seq, body) VALUES",
    4,
    f"ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body {_EARLIER}",
    packs=True,
)
_NEEDS: Final = _InsertStatement(
    "INSERT INTO needs (act, id, seq, agent, body) VALUES",
    5,
    f"ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body {_EARLIER}",
    packs=True,
)
_MARK: Final = _InsertStatement(
    "INSERT INTO marks (agent, sequence, id, hash, seq, act, body) VALUES",
    7,
    f"ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body {_EARLIER}",
    packs=True,
)
_REVIEW: Final = _InsertStatement(
    "INSERT INTO reviews (id, seq, agent, row_id, action_id, body) VALUES",
    6,
    f"ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body {_EARLIER}",
    packs=True,
)
_EXPERIENCE: Final = _InsertStatement(
    "INSERT INTO experiences (act, seq, agent, cycle, outcome, kind, tool, skill, valid, acted, revision, "
    "recorded, need, total, coverage, complete, verdict) VALUES",
    17,
    "ON CONFLICT DO UPDATE SET revision = excluded.revision, recorded = excluded.recorded, need = excluded.need, "
    "total = excluded.total, coverage = excluded.coverage, complete = excluded.complete, verdict = excluded.verdict",
    packs=True,
)
_SAY: Final = _InsertStatement(
    "INSERT INTO outbox (id, body) VALUES", 2, "ON CONFLICT DO UPDATE SET body = excluded.body"
)
_NUMBERS: Final = "SELECT action_id, act FROM actions WHERE action_id IN"


@dataclass
class WriteBatch:
    """What a transaction is to put into each table."""

    actions: list[Row] = field(default_factory=list)
    acts: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    contexts: list[Row] = field(default_factory=list)
    needs: list[Row] = field(default_factory=list)
    marks: list[Row] = field(default_factory=list)
    reviews: list[Row] = field(default_factory=list)
    experiences: list[Row] = field(default_factory=list)
    outbox: list[Row] = field(default_factory=list)

    def write(self, db: sqlite3.Connection) -> int:
        """Put them there; how many marks, changes of needs and reviews were there already."""
        for put, rows in (
            (_ACTION, self.actions),
            (_ACT, self.acts),
            (_SCORE, self.scores),
            (_CONTEXT, self.contexts),
            (_EXPERIENCE, self.experiences),
            (_SAY, self.outbox),
        ):
            _insert(db, put, rows)
        others = ((_NEEDS, self.needs), (_MARK, self.marks), (_REVIEW, self.reviews))
        return sum(len(rows) - _insert(db, put, rows) for put, rows in others)


def _insert(db: sqlite3.Connection, put: _InsertStatement, rows: Sequence[Row]) -> int:
    """How many of the rows were new, or took the place of one."""
    return sum(
        db.execute(_insertion(put, len(some)), tuple(chain.from_iterable(some))).rowcount for some in portions(rows)
    )


@cache
def _insertion(put: _InsertStatement, rows: int) -> str:
    row = f"({marks(put.columns - 1)}, packed(?))" if put.packs else f"({marks(put.columns)})"
    return f"{put.head} {', '.join([row] * rows)} {put.tail}"


def portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """All items, divided into lengths of which there are few."""
    at = 0
    for size in _PORTIONS:
        while len(items) - at >= size:
            yield items[at : at + size]
            at += size


def among(db: sqlite3.Connection, statement: str, names: Iterable[str | int]) -> Iterator[Row]:
    """The rows of `statement`, which ends in «IN», for all of these names."""
    for some in portions(list(names)):
        yield from db.execute(f"{statement} ({marks(len(some))})", some)


def numbers_of(db: sqlite3.Connection, actions: Iterable[str]) -> Iterator[Row]:
    """(action id, number) of those of these actions that have one."""
    return among(db, _NUMBERS, actions)


@cache
def marks(count: int) -> str:
    """So many question marks."""
    return ", ".join("?" * count)

"""The rows of one transaction, by table, and how a row of each table is put there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from conch.experience.opened import Database

Row = tuple[Any, ...]


class InsertStatement(NamedTuple):
    """How rows are put into a table."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    """Columns of which no two rows have the same values; none: no row is there already."""
    replaced: tuple[str, ...] = ()
    """Columns of the row that is there already which this one gives another value."""
    is_earliest: bool = False
    """Whether only a row that stands earlier in the stream replaces the one that is there."""
    packs: bool = False
    """Whether the last value is an event's body, to be packed."""

    def sql(self, values: str) -> str:
        """The statement with these rows, as `VALUES …` or `SELECT …`."""
        head = f"INSERT INTO {self.table} ({', '.join(self.columns)}) {values}"
        if not self.key:
            return head
        change = ", ".join(f"{column} = excluded.{column}" for column in self.replaced)
        # A fact that is there already stays, unless this one stands earlier in the stream: then any order of applying
        # them ends in the same rows.
        earlier = f" WHERE excluded.seq < {self.table}.seq" if self.is_earliest else ""
        return f"{head} ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {change}{earlier}"


_ACTION: Final = InsertStatement("actions", ("action_id", "act"))
_ACT: Final = InsertStatement(
    "acts",
    ("act", "action_id", "seq", "agent", "cycle", "started", "due", "body"),
    ("act",),
    ("seq", "agent", "cycle", "due", "body"),
    is_earliest=True,
    packs=True,
)
_SCORE: Final = InsertStatement(
    "scores",
    ("act", "scorer", "version", "component", "seq", "status", "value", "low", "high", "explanation"),
    ("act", "scorer", "version", "component"),
    ("seq", "status", "value", "low", "high", "explanation"),
    is_earliest=True,
)
_CONTEXT: Final = InsertStatement(
    "contexts", ("act", "kind", "seq", "body"), ("act", "kind"), ("seq", "body"), is_earliest=True, packs=True
)
_NEEDS: Final = InsertStatement(
    "needs", ("act", "id", "seq", "agent", "body"), ("act", "id"), ("seq", "body"), is_earliest=True, packs=True
)
_MARK: Final = InsertStatement(
    "marks",
    ("agent", "sequence", "id", "hash", "seq", "act", "body"),
    ("agent", "sequence", "id", "hash"),
    ("seq", "body"),
    is_earliest=True,
    packs=True,
)
_EXPERIENCE: Final = InsertStatement(
    "experiences",
    (
        *("act", "seq", "agent", "cycle", "outcome", "kind", "tool", "skill", "valid", "acted"),
        *("revision", "recorded", "need", "total", "coverage", "complete", "changed", "verdict"),
    ),
    ("act",),
    ("revision", "recorded", "need", "total", "coverage", "complete", "changed", "verdict"),
    packs=True,
)
_REVIEW: Final = InsertStatement(
    "reviews",
    ("id", "seq", "agent", "row_id", "action_id", "body"),
    ("id",),
    ("seq", "body"),
    is_earliest=True,
    packs=True,
)
_SAY: Final = InsertStatement("outbox", ("id", "body"), ("id",), ("body",))
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

    def write(self, db: Database) -> int:
        """Put them there; how many marks, changes of needs and reviews were there already."""
        for put, rows in (
            (_ACTION, self.actions),
            (_ACT, self.acts),
            (_SCORE, self.scores),
            (_CONTEXT, self.contexts),
            (_EXPERIENCE, self.experiences),
            (_SAY, self.outbox),
        ):
            db.insert(put, rows)
        others = ((_NEEDS, self.needs), (_MARK, self.marks), (_REVIEW, self.reviews))
        return sum(len(rows) - db.insert(put, rows) for put, rows in others)


def numbers_of(db: Database, actions: Iterable[str]) -> Iterator[Row]:
    """(action id, number) of those of these actions that have one."""
    return db.among(_NUMBERS, actions)

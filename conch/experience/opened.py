"""An open store: rows out of its database, and one StoreError for whatever is wrong with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol, TypeVar

import msgspec
from pydantic import ValidationError

from conch.bus import PARTITIONS
from conch.errors import StoreError
from conch.experience.packing import new_unpacked
from conch.experience.write_batch import InsertStatement, Row
from conch_schemas import ActionTaken, ContractViolationError, NeedsChanged, WeightsSet, decode

E = TypeVar("E", ActionTaken, NeedsChanged, WeightsSet)

LARGEST: Final = 2**63 - 1
"""The greatest number that a column holds."""

IMPORTING: Final = "importing"
"""The meta value that says how far an import into the store has come; gone once it is complete."""
POSITIONS: Final = "positions"
"""The meta value with the position of each partition of the agents, as a JSON list, where several writers share a
store; gone, all are at the meta value `position`."""
_PUT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


class FetchedRows(Protocol):
    """What a statement gave, read once."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement inserted, changed or deleted."""
        ...

    def fetchone(self) -> Any:
        """The next row; None behind the last one."""
        ...

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection to one store's database: what SQLite and PostgreSQL have in common.

    A statement is of the SQL that both know, its values stand for `?` or `:name`, `packed(?)` is a body to compress and
    `unpacked(column)` one to read. Rows are tuples. Each method raises the database's own error, which `errors_told`
    turns into a StoreError.
    """

    @property
    def name(self) -> str:
        """The store as sentences call it: its path, or its address without a password."""
        ...

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, object] = (), /) -> FetchedRows:
        """Execute one statement."""
        ...

    def executemany(self, sql: str, values: Iterable[Sequence[Any]], /) -> object:
        """Execute one statement for each of these rows of values."""
        ...

    def insert(self, put: InsertStatement, rows: Sequence[Row]) -> int:
        """Insert these rows, or put them in the place of those that they take precedence over; how many did either."""
        ...

    def among(self, statement: str, names: Iterable[str | int]) -> Iterator[Row]:
        """The rows of `statement`, which ends in «IN», for all of these names."""
        ...

    def transaction(self, *, writes: bool) -> AbstractContextManager[None]:
        """All or nothing, whatever is raised inside; its reads are of one moment where it does not write."""
        ...

    def errors_told(self) -> AbstractContextManager[None]:
        """Turns the database's errors into one StoreError that says what is wrong, where, and what to do."""
        ...

    def damaged(self, what: object) -> str:
        """The sentence for a store whose content is not what was written."""
        ...

    def bytes_used(self) -> int:
        """Bytes of the store that hold something."""
        ...

    def has_table(self, name: str) -> bool:
        """Whether the store has this table: a file of an earlier schema may lack one."""
        ...

    def rewrite(self) -> None:
        """Write the store anew, outside a transaction: no page of it holds a deleted row afterwards."""
        ...

    def close(self) -> None:
        """Let go of the database. Twice is once."""
        ...


class OpenStore:
    """A connection that all parts of one store share.

    Any thread may use it; a thread waits until another one's statement or transaction ends. SQLite's own mutex does not
    do: a thread that waits for it while it binds a value holds the GIL, for which a thread that has it waits as it
    calls `packed` or `unpacked`.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.unpacked: Callable[[Any], Any] = new_unpacked()
        """A body of a column that was read as it is. It is for whoever holds the connection, as `reading` gives it."""
        self._turn = threading.RLock()

    def close(self) -> None:
        """Close the connection. Twice is once."""
        with self._turn:
            self.db.close()

    def meta(self, name: str) -> Any:
        """A value of the table `meta`, a number as a number or as text; None where it has none."""
        row = self.row("SELECT value FROM meta WHERE name = ?", name)
        return row[0] if row else None

    def number(self, name: str) -> int:
        """A number of the table `meta`; 0 where it has none. Raises StoreError for what is no number."""
        value = self.meta(name)
        try:
            return int(value or 0)
        except (ValueError, TypeError, OverflowError):
            raise StoreError(self.db.damaged(f"{name} is no number in the table meta")) from None

    def set_meta(self, name: str, value: int | str) -> None:
        """Put a value into the table `meta`, within the caller's transaction."""
        self.db.execute(_PUT_META, (name, value))

    def position(self) -> int:
        """The last stream sequence applied; 0 before the first."""
        return self.number("position")

    def positions(self) -> list[int]:
        """The last stream sequence applied in each partition of the agents; `position` is the least of them."""
        value = self.meta(POSITIONS)
        return [self.position()] * PARTITIONS if value is None else self._numbers_of(value)

    def _numbers_of(self, value: Any) -> list[int]:
        try:
            found = [int(seq) for seq in json.loads(value)]
        except (ValueError, TypeError, OverflowError):
            found = []
        if len(found) != PARTITIONS:
            raise StoreError(self.db.damaged(f"{POSITIONS} is no list of {PARTITIONS} numbers in the table meta"))
        return found

    def set_positions(self, seqs: Sequence[int]) -> None:
        """Put the positions of the partitions, and the least of them, within the caller's transaction."""
        self.set_meta(POSITIONS, json.dumps(seqs))
        self.set_meta("position", min(seqs))

    def set_back(self, seq: int) -> None:
        """Put the position of each partition that is beyond `seq` there, within the caller's transaction."""
        if self.meta(POSITIONS) is None:
            self.set_meta("position", seq)
        else:
            self.set_positions([min(one, seq) for one in self.positions()])

    def changes(self) -> int:
        """How many transactions have changed experiences or removed some; 0 in a file before schema 6."""
        return self.number("changes")

    def epoch(self) -> str | None:
        """Which stream the position belongs to; None before the first was named."""
        value = self.meta("epoch")
        return None if value is None else str(value)

    def base(self) -> int:
        """What is added to a stream sequence to make a place; above 0 once the stream was replaced."""
        return self.number("base")

    def refuse_half(self) -> None:
        """Raises StoreError where an import into the store has begun and is not complete."""
        if self.meta(IMPORTING) is not None:
            raise StoreError(
                f"The experience store {self.db.name} holds half an import: finish it with conch data import."
            )

    def bytes_used(self) -> int:
        """Bytes of the store that hold something."""
        with self.reading() as db:
            return db.bytes_used()

    def has_table(self, name: str) -> bool:
        """Whether the store has this table: a file of an earlier schema may lack one, until a writer opens it."""
        with self.reading() as db:
            return db.has_table(name)

    def row(self, sql: str, *values: object) -> Any:
        """The first row; None where there is none. Raises StoreError, as `rows` and `named` do."""
        with self._turn, self.db.errors_told():
            return self.db.execute(sql, values).fetchone()

    def rows(self, sql: str, *values: object) -> list[Any]:
        """All rows."""
        with self._turn, self.db.errors_told():
            return self.db.execute(sql, values).fetchall()

    def named(self, sql: str, values: Mapping[str, object]) -> list[Any]:
        """All rows of a statement whose values have names."""
        with self._turn, self.db.errors_told():
            return self.db.execute(sql, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """The connection, for reads that are not one statement of `row`, `rows` or `named`."""
        with self._turn, self.db.errors_told():
            yield self.db

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several reads of one moment, whatever is written meanwhile."""
        with self._turn, self.db.errors_told(), self.db.transaction(writes=False), self.intact():
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Several writes, all or none."""
        with self._turn, self.db.errors_told(), self.db.transaction(writes=True), self.intact():
            yield

    @contextmanager
    def intact(self) -> Iterator[None]:
        """Turns a row that is not what was written into a StoreError."""
        try:
            yield
        except (ValidationError, ContractViolationError, json.JSONDecodeError, msgspec.DecodeError) as error:
            raise StoreError(self.db.damaged(f"a row cannot be read: {type(error).__name__}")) from error


def stored_event(kind: type[E], body: bytes) -> E:
    """The event of this kind in a stored row. Raises ContractViolationError where it is none."""
    event = decode(body)
    if not isinstance(event, kind):
        raise ContractViolationError(f"{event.TYPE} where {kind.TYPE} was stored")
    return event


def in_64_bits(value: Any) -> Any:
    """A number as a column can hold it; what is none as it is."""
    return max(-LARGEST, min(value, LARGEST)) if type(value) is int else value

"""The open file of a store: rows out of it, and one StoreError for whatever is wrong with it."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError

from conch.errors import StoreError
from conch.experience.connection import damaged, told, transaction
from conch_schemas import ActionTaken, ContractViolationError, NeedsChanged, WeightsSet, decode

E = TypeVar("E", ActionTaken, NeedsChanged, WeightsSet)

LARGEST: Final = 2**63 - 1
"""The greatest number that SQLite holds."""

_PUT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"


class OpenStore:
    """A connection to the file at `path`, which all parts of one store share.

    Any thread may use it; a thread waits until another one's statement or transaction ends. SQLite's own mutex does not
    do: a thread that waits for it while it binds a value holds the GIL, for which a thread that has it waits as it
    calls `packed` or `unpacked`.
    """

    def __init__(self, path: Path | str, db: sqlite3.Connection) -> None:
        self.path = path
        self.db = db
        self._turn = threading.RLock()

    def close(self) -> None:
        """Close the connection. Twice is once."""
        with self._turn:
            self.db.close()

    def meta(self, name: str) -> Any:
        """A value of the table `meta`; None where it has none."""
        row = self.row("SELECT value FROM meta WHERE name = ?", name)
        return row[0] if row else None

    def set_meta(self, name: str, value: int | str) -> None:
        """Put a value into the table `meta`, within the caller's transaction."""
        self.db.execute(_PUT_META, (name, value))

    def position(self) -> int:
        """The last stream sequence applied; 0 before the first."""
        return int(self.meta("position") or 0)

    def changes(self) -> int:
        """How many transactions have changed experiences or removed some; 0 in a file before schema 6."""
        return int(self.meta("changes") or 0)

    def epoch(self) -> str | None:
        """Which stream the position belongs to; None before the first was named."""
        value = self.meta("epoch")
        return None if value is None else str(value)

    def base(self) -> int:
        """What is added to a stream sequence to make a place; above 0 once the stream was replaced."""
        return int(self.meta("base") or 0)

    def row(self, sql: str, *values: object) -> Any:
        """The first row; None where there is none. Raises StoreError, as `rows` and `named` do."""
        with self._turn, told(self.path):
            return self.db.execute(sql, values).fetchone()

    def rows(self, sql: str, *values: object) -> list[Any]:
        """All rows."""
        with self._turn, told(self.path):
            return self.db.execute(sql, values).fetchall()

    def named(self, sql: str, values: Mapping[str, object]) -> list[Any]:
        """All rows of a statement whose values have names."""
        with self._turn, told(self.path):
            return self.db.execute(sql, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for reads that are not one statement of `row`, `rows` or `named`."""
        with self._turn, told(self.path):
            yield self.db

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several reads of one moment, whatever is written meanwhile."""
        with self._turn, told(self.path), transaction(self.db, "DEFERRED"), self.intact():
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Several writes, all or none."""
        with self._turn, told(self.path), transaction(self.db), self.intact():
            yield

    @contextmanager
    def intact(self) -> Iterator[None]:
        """Turns a row that is not what was written into a StoreError."""
        try:
            yield
        except (ValidationError, ContractViolationError, json.JSONDecodeError, msgspec.DecodeError) as error:
            raise StoreError(damaged(self.path, f"a row cannot be read: {type(error).__name__}")) from error


def stored_event(kind: type[E], body: bytes) -> E:
    """The event of this kind in a stored row. Raises ContractViolationError where it is none."""
    event = decode(body)
    if not isinstance(event, kind):
        raise ContractViolationError(f"{event.TYPE} where {kind.TYPE} was stored")
    return event


def in_64_bits(value: Any) -> Any:
    """A number as SQLite can hold it; what is none as it is."""
    return max(-LARGEST, min(value, LARGEST)) if type(value) is int else value

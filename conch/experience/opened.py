"""A store's file, opened for reading: rows out of it, and one sentence for whatever is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from pydantic import ValidationError

from conch.errors import StoreError
from conch.experience.connection import damaged, open_reader, told, transaction
from conch_schemas import ActionTaken, ContractViolationError, NeedsChanged, WeightsSet, decode

E = TypeVar("E", ActionTaken, NeedsChanged, WeightsSet)


class OpenStore:
    """Closed by leaving the context or by `close`."""

    def __init__(self, path: Path | str, *, timeout: float = 5.0) -> None:
        """Opens the store that is there. `timeout`: seconds to wait for a lock. Raises StoreError."""
        self._path = path
        self._db = open_reader(path, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def _meta(self, name: str) -> Any:
        row = self._row("SELECT value FROM meta WHERE name = ?", name)
        return row[0] if row else None

    def _row(self, sql: str, *values: object) -> Any:
        with told(self._path):
            return self._db.execute(sql, values).fetchone()

    def _rows(self, sql: str, *values: object) -> list[Any]:
        with told(self._path):
            return self._db.execute(sql, values).fetchall()

    def _named(self, sql: str, values: Mapping[str, object]) -> list[Any]:
        with told(self._path):
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several reads of one moment, whatever is written meanwhile."""
        with told(self._path), transaction(self._db, "DEFERRED"), self._intact():
            yield

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """Turns a row that is not what was written into a StoreError."""
        try:
            yield
        except (ValidationError, ContractViolationError, json.JSONDecodeError, msgspec.DecodeError) as error:
            raise StoreError(damaged(self._path, f"a row cannot be read: {type(error).__name__}")) from error


def stored_event(kind: type[E], body: bytes) -> E:
    """The event of this kind in a stored row. Raises ContractViolationError where it is none."""
    event = decode(body)
    if not isinstance(event, kind):
        raise ContractViolationError(f"{event.TYPE} where {kind.TYPE} was stored")
    return event

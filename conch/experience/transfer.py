"""One store's rows into another store, whatever kept them and whatever will: in batches, and resumed where they ended.

Rows are copied as they are, bodies packed as they were. Each batch is one transaction of the target, with the place in
the source that it reached. The stream's position comes last: until then the target is no store that can be used.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from conch.errors import StoreError
from conch.experience.opened import IMPORTING, POSITIONS, OpenStore
from conch.experience.packing import new_packing
from conch.experience.schema import TABLES
from conch.experience.write_batch import InsertStatement, Row

BATCH: Final = 2000
"""Rows to a transaction."""
_OWN: Final = ("application", "schema", "conch", IMPORTING, POSITIONS)
"""Values of the table `meta` that belong to the target."""


class _Progress(msgspec.Struct):
    """How far an import has come; stands in the target until it is complete."""

    source: tuple[str | None, int]
    """The source's stream, and its position there."""
    done: list[str] = []
    """Tables that are complete."""
    after: tuple[int | str, ...] | None = None
    """The key of the last row of the next table that is there."""


@dataclass(frozen=True)
class TransferCount:
    """Rows of one table, in the source and, counted afterwards, in the target."""

    table: str
    rows: int


@dataclass(frozen=True)
class _Table:
    """A table of the layout."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def put(self) -> InsertStatement:
        """An outbox numbers its rows itself, in the order in which they come."""
        return InsertStatement(self.name, tuple(one for one in self.columns if one != "place"))

    def page(self, after: tuple[int | str, ...] | None) -> str:
        """The statement that reads the rows behind a key, the key first."""
        key = ", ".join(self.key)
        behind = "" if after is None else f"WHERE ({key}) > ({', '.join('?' * len(self.key))})"
        columns = ", ".join(self.put.columns)
        return f"SELECT {key}, {columns} FROM {self.name} {behind} ORDER BY {key} LIMIT {BATCH}"  # noqa: S608


def copy_store(source: OpenStore, target: OpenStore, tell: Callable[[int], None]) -> list[TransferCount]:
    """Copy all rows of `source` into `target`, an empty store or one that an earlier call left half filled.

    The source is read as of one moment, whatever is written meanwhile. `tell` is given the number of rows of
    each batch. A second call is refused, as the target is no longer empty.

    Raises StoreError where a store cannot be used, the source holds half an import itself, the target has rows of its
    own, the source was written to since the half that is there, or the numbers of rows differ at the end.
    """
    source.refuse_half()
    if not source.has_table("training"):
        raise StoreError(
            f"The experience store {source.db.name} was written by an older Conch: a run in its home brings it up to "
            "date, then import it."
        )
    with source.snapshot():
        came = (source.epoch(), source.position())
        progress = _begin(target, came)
        for table in _tables():
            if table.name not in progress.done:
                _copy(source, target, table, progress, tell)
        counts = [_count(source, target, table.name) for table in _tables()]
        values = [row for row in source.rows("SELECT name, value FROM meta") if row[0] not in _OWN]
    with target.writing():
        for name, value in values:
            target.set_meta(name, value)
        target.db.execute("DELETE FROM meta WHERE name = ?", (IMPORTING,))
    return counts


def _begin(target: OpenStore, came: tuple[str | None, int]) -> _Progress:
    """The progress of the import that is under way, or of a new one. Raises StoreError."""
    said = target.meta(IMPORTING)
    if said is not None:
        progress = msgspec.json.decode(said, type=_Progress)
        if progress.source != came:
            raise StoreError(
                f"The experience store {target.db.name} holds half an import of a store that is another one by now: "
                "import into an empty store."
            )
        return progress
    if any(target.row(f"SELECT 1 FROM {table.name} LIMIT 1") for table in _tables()) or target.epoch() is not None:  # noqa: S608
        raise StoreError(f"The experience store {target.db.name} is not empty: import into one that is.")
    progress = _Progress(came)
    with target.writing():
        target.set_meta(IMPORTING, msgspec.json.encode(progress).decode())
    return progress


def _copy(
    source: OpenStore, target: OpenStore, table: _Table, progress: _Progress, tell: Callable[[int], None]
) -> None:
    for rows, after in _pages(source, table, progress.after):
        with target.writing():
            progress.after = after
            if after is None:
                progress.done.append(table.name)
            target.db.insert(table.put, rows)
            target.set_meta(IMPORTING, msgspec.json.encode(progress).decode())
        tell(len(rows))


def _pages(
    source: OpenStore, table: _Table, after: tuple[int | str, ...] | None
) -> Iterator[tuple[list[Row], tuple[int | str, ...] | None]]:
    """(rows, the key of the last of them) behind that key; the last page is empty, and its key None."""
    pack, keys = new_packing().packed, len(table.key)
    bodies = [place for place, column in enumerate(table.put.columns) if column in ("body", "verdict")]
    while rows := source.rows(table.page(after), *(after or ())):
        after = rows[-1][:keys]
        yield [_with_bytes(row[keys:], bodies, pack) for row in rows], after
    yield [], None


def _with_bytes(row: Row, bodies: list[int], pack: Callable[[bytes | str], bytes]) -> Row:
    """The row with each body as bytes: one that SQLite has as text, from before bodies were packed, is packed."""
    if not any(isinstance(row[place], str) for place in bodies):
        return row
    return tuple(pack(value) if at in bodies and isinstance(value, str) else value for at, value in enumerate(row))


def _count(source: OpenStore, target: OpenStore, table: str) -> TransferCount:
    count = f"SELECT count(*) FROM {table}"  # noqa: S608
    rows, there = source.row(count)[0], target.row(count)[0]
    if rows != there:
        raise StoreError(
            f"The experience store {target.db.name} has {there} rows of {table} and the source {rows}: import again, "
            "into an empty store."
        )
    return TransferCount(table, rows)


@cache
def _tables() -> tuple[_Table, ...]:
    """The tables of the layout, `actions` first: PostgreSQL makes room for acts by their numbers there."""
    db = sqlite3.connect(":memory:")
    try:
        found = [_table(db, made) for statement in TABLES if (made := _made(db, statement)) not in (None, "meta")]
    finally:
        db.close()
    return tuple(sorted(found, key=lambda table: table.name != "actions"))


def _made(db: sqlite3.Connection, statement: str) -> str | None:
    """The table that the statement makes; None where it makes another thing."""
    db.execute(statement)
    _, what, name, *_ = statement.split()
    return name if what == "TABLE" else None


def _table(db: sqlite3.Connection, name: str | None) -> _Table:
    rows: list[tuple[Any, ...]] = db.execute(f"PRAGMA table_info({name})").fetchall()
    key = sorted((row for row in rows if row[5]), key=lambda row: row[5])
    return _Table(str(name), tuple(row[1] for row in rows), tuple(row[1] for row in key))

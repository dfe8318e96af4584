"""The store's SQL, and the values of its rows, as PostgreSQL takes and gives them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from conch.experience.postgres.schema import conflict_key
from conch.experience.write_batch import InsertStatement, Row

_UNPACKED: Final = re.compile(r"\bunpacked\(([a-z_.]+)\)")
_HINT: Final = re.compile(r"\+(?=[a-z])|\bINDEXED BY \w+")
"""What keeps SQLite's planner from an index, or to one; PostgreSQL knows neither."""
_CONFLICT: Final = re.compile(r"INSERT INTO (\w+)|ON CONFLICT \(([^)]*)\)")
_VALUE: Final = re.compile(r"'[^']*'|packed\(\?\)|packed\(:([a-z_]+)\)|\?|(?<![:\w]):([a-z_]+)")
_ESCAPE: Final = "\U0010fffd"
"""A character for private use, which stands before an `0` for NUL, that PostgreSQL's text cannot hold, and before a `1`
for itself."""


class Statement(NamedTuple):
    """A statement as PostgreSQL reads it."""

    sql: str
    names: tuple[str, ...]
    """Names of the values in their order; none: they are given in their order."""
    packed: frozenset[int]
    """Places of the values to pack."""
    unpacks: bool
    """Whether the bodies among its columns are to be unpacked."""

    def values(self, given: Sequence[Any] | Mapping[str, object]) -> list[Any]:
        """The values in their order."""
        return [given[name] for name in self.names] if isinstance(given, Mapping) else list(given)


@lru_cache(maxsize=512)
def translated(sql: str) -> Statement:
    """A statement of the SQL that both databases know: numbered values, no `packed` and no `unpacked`."""
    names: dict[str, int] = {}
    packed: set[int] = set()
    count = 0

    def numbered(found: re.Match[str]) -> str:
        nonlocal count
        text = found[0]
        if text.startswith("'"):
            return text
        name = found[1] or found[2]
        if name is None or name not in names:
            count += 1
        at = count if name is None else names.setdefault(name, count)
        if text.startswith("packed"):
            packed.add(at - 1)
        return f"${at}"

    plain, unpacked = _UNPACKED.subn(r"\1", _with_key(sql))
    text = _VALUE.sub(numbered, _HINT.sub("", plain))
    return Statement(text, tuple(names), frozenset(packed), unpacked > 0)


def _with_key(sql: str) -> str:
    """The statement with the primary key of its table as PostgreSQL has it."""
    table = ""

    def key(found: re.Match[str]) -> str:
        nonlocal table
        table = found[1] or table
        return found[0] if found[1] else f"ON CONFLICT ({conflict_key(table, found[2])})"

    return _CONFLICT.sub(key, sql)


@lru_cache(maxsize=64)
def insertion(put: InsertStatement, types: tuple[str, ...]) -> str:
    """The insertion of any number of rows, given as one array a column; `types`: of the columns."""
    arrays = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(types, start=1))
    return _with_key(put.sql(f"SELECT * FROM unnest({arrays})"))  # noqa: S608


def distinct(put: InsertStatement, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows without those that another one of them takes the place of: PostgreSQL changes a row once in a
    statement."""
    if not put.key or len(rows) < 2:
        return rows
    key = itemgetter(*(put.columns.index(column) for column in put.key))
    found: dict[Any, Row] = {}
    seq = put.columns.index("seq") if put.is_earliest else None
    for row in rows:
        there = found.get(key(row))
        if there is None or seq is None or row[seq] < there[seq]:
            found[key(row)] = row
    return list(found.values())


def _to_text(value: Any) -> Any:
    text = value if isinstance(value, str) or value is None else str(value)
    if text is not None and ("\0" in text or _ESCAPE in text):
        return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")
    return text


def from_text(value: str | None) -> str | None:
    """A text as it was given."""
    if value is None or _ESCAPE not in value:
        return value
    return value.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


def _to_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _as_it_is(value: Any) -> Any:
    return value


def to_column(kind: str) -> Callable[[Any], Any]:
    """How a value is given to a column of this type."""
    return {"text": _to_text, "bytea": _to_bytes}.get(kind, _as_it_is)

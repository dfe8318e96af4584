"""Removal of acts at a person's request: finding them by their words, and what stays of their marks.

A record of each removal, the event `person.forgotten`, stays in the table `meta` as long as the mark that seals it: the
verification of the marks asks for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Final, Self

from conch.experience.connection import open_reader, open_writer, told, transaction
from conch.experience.write_batch import among
from conch_schemas import Mark, PersonForgotten, decode, wire_form

_RECORD: Final = "forgotten/"
"""Begins the names of the records in `meta`; the event's id follows."""
_HOLDING: Final = (
    "SELECT act FROM acts WHERE held(unpacked(body))",
    "SELECT act FROM contexts WHERE held(unpacked(body))",
    "SELECT act FROM scores WHERE held(explanation) OR held(component)",
    "SELECT act FROM needs WHERE act > 0 AND held(unpacked(body))",
    "SELECT act FROM experiences WHERE held(unpacked(verdict)) OR held(tool) OR held(skill)",
)
_OWNERS: Final = """
    SELECT actions.action_id, acts.agent FROM actions LEFT JOIN acts USING (act) WHERE actions.act IN"""
_NUMBERS: Final = "SELECT act, action_id FROM actions WHERE action_id IN"
_MARKS: Final = "SELECT unpacked(body) FROM marks WHERE agent = ? ORDER BY sequence"
_DELETIONS: Final = (
    "DELETE FROM scores WHERE act = ?",
    "DELETE FROM contexts WHERE act = ?",
    "DELETE FROM needs WHERE act = ?",
    "DELETE FROM experiences WHERE act = ?",
    "DELETE FROM acts WHERE act = ?",
    "UPDATE marks SET act = NULL WHERE act = ?",
)
_KEEP_MARK: Final = """
    INSERT INTO marks (agent, sequence, id, hash, seq, act, body) VALUES (?, ?, ?, ?, ?, NULL, packed(?))
    ON CONFLICT DO UPDATE SET body = excluded.body"""
_KEEP_RECORD: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING"
_RECORDS: Final = "SELECT value FROM meta WHERE name GLOB ? ORDER BY name"

Held = Callable[[bytes], bool]
"""Whether the words that are sought stand in these bytes."""


class StoreSearch:
    """Finds words in a store, also while a run writes to it. Use as a context."""

    def __init__(self, path: Path, held: Held, *, timeout: float = 5.0) -> None:
        """`timeout`: seconds to wait for a lock. Raises StoreError."""
        self._path, self._held = path, held
        self._db = open_reader(path, timeout)
        _define(self._db, held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def actions(self, agents: Set[str]) -> set[str]:
        """Ids of the actions of these agents of which a fact holds the words. Of an action whose act is not stored the
        agent is not known: it is among them."""
        with told(self._path):
            numbers = {act for query in _HOLDING for (act,) in self._db.execute(query)}
            owners: dict[str, str | None] = dict(among(self._db, _OWNERS, numbers))
        return {action for action, agent in owners.items() if agent is None or agent in agents}

    def marks(self, agent: str) -> Iterator[tuple[Mark, bool]]:
        """Each of the agent's marks in the order of the chain, and whether it holds the words."""
        with told(self._path):
            for (body,) in self._db.execute(_MARKS, (agent,)):
                yield Mark.model_validate_json(body), self._held(_bytes(body))


def remove_acts(path: Path, records: Iterable[PersonForgotten], held: Held, *, timeout: float = 5.0) -> None:
    """Remove from the store what the records name, and needs and outgoing events that hold the words, in one
    transaction; then rewrite the file, so that no page holds what was deleted or revised before.

    For a store that no other process writes to. A second time changes nothing. The file needs its own size again on the
    disk. Raises StoreError.
    """
    with told(path):
        db = open_writer(path, timeout)
        try:
            _define(db, held)
            with transaction(db):
                for record in records:
                    forget_rows(db, record, 0)
                db.execute("DELETE FROM outbox WHERE held(body)")
                db.execute("DELETE FROM needs WHERE act = 0 AND held(unpacked(body))")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            db.close()


def forget_rows(db: sqlite3.Connection, record: PersonForgotten, seq: int) -> None:
    """Remove the rows of the actions that the record names, put what is left of the marks in their place, and keep the
    record. Within the caller's transaction. `seq`: the place of a mark that has no row."""
    for number, action in list(among(db, _NUMBERS, record.actions)):
        for deletion in _DELETIONS:
            db.execute(deletion, (number,))
        db.execute("DELETE FROM actions WHERE action_id = ?", (action,))
        db.execute("DELETE FROM outbox WHERE json_extract(body, '$.actionid') = ?", (action,))
    for mark in record.marks:
        db.execute(_KEEP_MARK, (mark.agent, mark.sequence, mark.id, mark.hash, seq, mark.model_dump_json()))
    db.execute(_KEEP_RECORD, (_RECORD + record.id, wire_form(record)))


def records_in(db: sqlite3.Connection, agent: str) -> list[PersonForgotten]:
    """The records of what was removed of the agent at a person's request. Raises ContractViolationError for a row that
    is none."""
    found = [decode(body) for (body,) in db.execute(_RECORDS, (f"{_RECORD}*",))]
    return [one for one in found if isinstance(one, PersonForgotten) and one.agent == agent]


def forget_records(db: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Drop these records: the marks that sealed them are removed, with all marks before them."""
    db.executemany("DELETE FROM meta WHERE name = ?", [(_RECORD + one,) for one in ids])


def _define(db: sqlite3.Connection, held: Held) -> None:
    db.create_function("held", 1, lambda value: isinstance(value, bytes | str) and held(_bytes(value)))


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()

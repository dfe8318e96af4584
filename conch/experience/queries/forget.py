"""Removal of acts at a person's request: finding them by their words, and what stays of their marks.

A record of each removal, the event `person.forgotten`, stays in the table `meta` as long as the mark that seals it: the
verification of the marks asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Final, Self

from conch.experience.location import StoreLocation
from conch.experience.opened import Database
from conch_schemas import Mark, PersonForgotten, decode, wire_form

_RECORD: Final = "forgotten/"
"""Begins the names of the records in `meta`; the event's id follows."""
_PAGE: Final = 500
"""Acts, marks or candidates that are read at one time."""
_WORDS: Final = (
    "SELECT act, unpacked(body) FROM acts WHERE act > ? AND act <= ?",
    "SELECT act, unpacked(body) FROM contexts WHERE act > ? AND act <= ?",
    "SELECT act, explanation, component FROM scores WHERE act > ? AND act <= ?",
    "SELECT act, unpacked(body) FROM needs WHERE act > ? AND act <= ?",
    "SELECT act, unpacked(verdict), tool, skill FROM experiences WHERE act > ? AND act <= ?",
)
_LAST: Final = "SELECT coalesce(max(act), 0) FROM actions"
_FORKS: Final = "SELECT seq, agent, cycle, unpacked(body) FROM forks WHERE seq > ? ORDER BY seq LIMIT ?"
_REVIEWS: Final = "SELECT action_id, unpacked(body) FROM reviews"
_OF_CYCLE: Final = "SELECT action_id FROM acts WHERE agent = ? AND cycle = ?"
_OWNERS: Final = """
    SELECT actions.action_id, acts.agent FROM actions LEFT JOIN acts ON acts.act = actions.act WHERE actions.act IN"""
_NUMBERS: Final = "SELECT act, action_id FROM actions WHERE action_id IN"
_MARKS: Final = "SELECT sequence, unpacked(body) FROM marks WHERE agent = ? AND sequence > ? ORDER BY sequence LIMIT ?"
_OUTBOX: Final = "SELECT place, body FROM outbox"
_NEEDS: Final = "SELECT id, unpacked(body) FROM needs WHERE act = 0"
_SAID: Final = "SELECT id, unpacked(body) FROM reviews"
_SYSTEMS: Final = "SELECT kind, unpacked(body) FROM contexts WHERE act = 0"
_DELETIONS: Final = (
    "DELETE FROM forks WHERE (agent, cycle) IN (SELECT agent, cycle FROM acts WHERE act = ?)",
    "DELETE FROM scores WHERE act = ?",
    "DELETE FROM contexts WHERE act = ?",
    "DELETE FROM needs WHERE act = ?",
    "DELETE FROM experiences WHERE act = ?",
    "DELETE FROM acts WHERE act = ?",
    "UPDATE marks SET act = NULL WHERE act = ?",
)
_KEEP_MARK: Final = """
    INSERT INTO marks (agent, sequence, id, hash, seq, act, body) VALUES (?, ?, ?, ?, ?, NULL, packed(?))
    ON CONFLICT (agent, sequence, id, hash) DO UPDATE SET body = excluded.body"""
_KEEP_RECORD: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_RECORDS: Final = "SELECT value FROM meta WHERE name >= ? AND name < ? ORDER BY name"

Held = Callable[[bytes], bool]
"""Whether the words that are sought stand in these bytes."""


class StoreSearch:
    """Finds words in a store, also while a run writes to it. Use as a context."""

    def __init__(self, store: StoreLocation, held: Held) -> None:
        """Raises StoreError."""
        self._held = held
        self._store = store.opened(writes=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def actions(self, agents: Set[str]) -> set[str]:
        """Ids of the actions of these agents of which a fact holds the words. Of an action whose act is not stored the
        agent is not known: it is among them."""
        with self._store.reading() as db:
            numbers = set(self._numbers(db))
            owners: dict[str, str | None] = dict(db.among(_OWNERS, numbers))
            found = {action for action, agent in owners.items() if agent is None or agent in agents}
            return found | set(self._of_forks(db, agents)) | set(self._of_reviews(db))

    def marks(self, agent: str) -> Iterator[tuple[Mark, bool]]:
        """Each of the agent's marks in the order of the chain, and whether it holds the words."""
        after = -1
        while rows := self._store.rows(_MARKS, agent, after, _PAGE):
            for _, body in rows:
                yield Mark.model_validate_json(body), _holds(self._held, body)
            after = rows[-1][0]

    def _numbers(self, db: Database) -> Iterator[int]:
        (last,) = db.execute(_LAST).fetchone()
        for after in range(0, last, _PAGE):
            for query in _WORDS:
                for act, *values in db.execute(query, (after, after + _PAGE)):
                    if any(_holds(self._held, value) for value in values):
                        yield act

    def _of_forks(self, db: Database, agents: Set[str]) -> Iterator[str]:
        after = -1
        while db.has_table("forks") and (rows := db.execute(_FORKS, (after, _PAGE)).fetchall()):
            for _, agent, cycle, body in rows:
                if agent in agents and _holds(self._held, body):
                    yield from (action for (action,) in db.execute(_OF_CYCLE, (agent, cycle)).fetchall())
            after = rows[-1][0]

    def _of_reviews(self, db: Database) -> Iterator[str]:
        for action, body in db.execute(_REVIEWS).fetchall() if db.has_table("reviews") else ():
            if action is not None and _holds(self._held, body):
                yield action


def remove_acts(store: StoreLocation, records: Iterable[PersonForgotten], held: Held) -> None:
    """Remove from the store what the records name, and needs, reviews, system prompts and outgoing events that hold
    the words, in one transaction; then rewrite the store, so that no page holds what was deleted or revised before.

    For a store that no other process writes to. A second time changes nothing. The store needs its own size again on
    the disk. Raises StoreError.
    """
    opened = store.opened(writes=True)
    try:
        with opened.writing():
            for record in records:
                forget_rows(opened.db, record, 0)
            _delete_held(opened.db, _OUTBOX, "DELETE FROM outbox WHERE place = ?", held)
            _delete_held(opened.db, _NEEDS, "DELETE FROM needs WHERE act = 0 AND id = ?", held)
            _delete_held(opened.db, _SAID, "DELETE FROM reviews WHERE id = ?", held)
            _delete_held(opened.db, _SYSTEMS, "DELETE FROM contexts WHERE act = 0 AND kind = ?", held)
        with opened.reading() as db:
            db.rewrite()
    finally:
        opened.close()


def forget_rows(db: Database, record: PersonForgotten, seq: int) -> None:
    """Remove the rows of the actions that the record names, put what is left of the marks in their place, and keep the
    record. Within the caller's transaction. `seq`: the place of a mark that has no row."""
    for number, action in list(db.among(_NUMBERS, record.actions)):
        for deletion in _DELETIONS:
            db.execute(deletion, (number,))
        db.execute("DELETE FROM actions WHERE action_id = ?", (action,))
    # Reviews outlive the rows of their acts.
    db.executemany("DELETE FROM reviews WHERE action_id = ?", [(action,) for action in record.actions])
    gone = set(record.actions)
    for place, body in db.execute(_OUTBOX).fetchall() if gone else ():
        if json.loads(body).get("actionid") in gone:
            db.execute("DELETE FROM outbox WHERE place = ?", (place,))
    for mark in record.marks:
        db.execute(_KEEP_MARK, (mark.agent, mark.sequence, mark.id, mark.hash, seq, mark.model_dump_json()))
    db.execute(_KEEP_RECORD, (_RECORD + record.id, wire_form(record).decode()))


def records_in(db: Database, agent: str) -> list[PersonForgotten]:
    """The records of what was removed of the agent at a person's request. Raises ContractViolationError for a row that
    is none."""
    rows = db.execute(_RECORDS, (_RECORD, _RECORD[:-1] + chr(ord(_RECORD[-1]) + 1))).fetchall()
    found = [decode(_bytes(body)) for (body,) in rows]
    return [one for one in found if isinstance(one, PersonForgotten) and one.agent == agent]


def forget_records(db: Database, ids: Sequence[str]) -> None:
    """Drop these records: the marks that sealed them are removed, with all marks before them."""
    db.executemany("DELETE FROM meta WHERE name = ?", [(_RECORD + one,) for one in ids])


def _delete_held(db: Database, query: str, deletion: str, held: Held) -> None:
    for key, body in db.execute(query).fetchall():
        if _holds(held, body):
            db.execute(deletion, (key,))


def _holds(held: Held, value: Any) -> bool:
    return isinstance(value, bytes | str) and held(_bytes(value))


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()

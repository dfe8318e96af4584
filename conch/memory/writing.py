"""Writes memories into the open file, inside a transaction of the caller's."""

from __future__ import annotations

import sqlite3
from typing import Final

from conch.memory.models import MOST_SOURCES, Memory, SourceAct
from conch.memory.rows import figure
from conch.memory.scoring import worth
from conch.memory.words import key_of

MOST_FORGOTTEN: Final = 100_000
"""Ids of forgotten memories that are known, so that an event that is read again does not bring one back."""
EVICTED_SHARE: Final = 0.01
"""Share of a full memory that is dropped at once: not one for each that is added."""
MERGED_SHARE: Final = 0.5
"""Share of the most memories that is added between two merges of the full-text index. Deleted words stay in it until
then: without merges a recall of 5,000 memories took 9 ms of processor time after 65,000 additions, with them 4.3 ms as
at the beginning; a merge took 10 ms."""
_BATCH: Final = 64


def add(database: sqlite3.Connection, memory: Memory) -> bool:
    """Store a memory; whether it is a new row. One that is known by its id changes nothing, but where its revision is a
    later one; one with the words of another of its kind becomes a further source of that one."""
    known = "SELECT place FROM sources WHERE id = ? UNION ALL SELECT 0 FROM forgotten WHERE id = ?"
    found = database.execute(known, (memory.id, memory.id)).fetchone()
    if found is not None:
        if found[0]:
            _revise(database, found[0], memory)
        return False
    digest = key_of(memory.text)
    same = database.execute(
        "SELECT place FROM memories WHERE digest = ? AND kind = ?", (digest, memory.kind)
    ).fetchone()
    if same is not None:
        _join(database, same[0], memory.id, memory.source)
        _raise(database, same[0], memory.importance, memory.at)
        return False
    rank = worth(memory.importance, memory.at)
    row = (memory.id, memory.kind, memory.text, memory.importance, memory.at, memory.revision, 0, rank, digest)
    sql = (
        "INSERT INTO memories (id, kind, text, importance, at, revision, count, worth, digest) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    place = database.execute(sql, row).lastrowid
    assert place is not None
    _join(database, place, memory.id, memory.source)
    return True


def merge(database: sqlite3.Connection, place: int, other: int) -> None:
    """Merge the memory at `other` into the one at `place`, which keeps its text and gets the sources."""
    importance, at, count = database.execute(
        "SELECT importance, at, count FROM memories WHERE place = ?", (other,)
    ).fetchone()
    sources = database.execute(
        "SELECT id, agent, event, cycle FROM sources WHERE place = ? ORDER BY number", (other,)
    ).fetchall()
    database.execute("DELETE FROM memories WHERE place = ?", (other,))
    for id, agent, event, cycle in sources:
        _join(database, place, id, SourceAct(agent, event, cycle))
    database.execute("UPDATE memories SET count = count + ? WHERE place = ?", (count - len(sources), place))
    _raise(database, place, importance, at)


def forget(database: sqlite3.Connection, place: int) -> None:
    """Delete a memory for good: its sources do not bring it back."""
    database.execute(
        "INSERT OR IGNORE INTO forgotten (id) SELECT id FROM memories WHERE place = ? "
        "UNION SELECT id FROM sources WHERE place = ?",
        (place, place),
    )
    database.execute("DELETE FROM memories WHERE place = ?", (place,))
    database.execute("DELETE FROM forgotten WHERE place <= (SELECT max(place) FROM forgotten) - ?", (MOST_FORGOTTEN,))


def bound(database: sqlite3.Connection, most: int, most_bytes: int) -> int:
    """Drop what is worth least until at most `most` memories with `most_bytes` bytes of text are left, and some room;
    returns how many were dropped."""
    count, dropped = figure(database, "count"), 0
    if count > most:
        dropped += _drop(database, count - most + int(EVICTED_SHARE * most))
    if figure(database, "bytes") > most_bytes:
        while figure(database, "bytes") > most_bytes * (1 - EVICTED_SHARE):
            dropped += _drop(database, _BATCH)
    return dropped


def newest_place(database: sqlite3.Connection) -> int:
    """The highest place that a memory was ever stored at; 0: there was none."""
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'memories'").fetchone()
    return 0 if row is None else int(row[0])


def merge_index(database: sqlite3.Connection) -> None:
    """Make one segment of the full-text index, without the words of deleted memories."""
    database.execute("INSERT INTO words (words) VALUES ('optimize')")


def _drop(database: sqlite3.Connection, number: int) -> int:
    sql = "DELETE FROM memories WHERE place IN (SELECT place FROM memories ORDER BY worth, place LIMIT ?)"
    return database.execute(sql, (number,)).rowcount


def _join(database: sqlite3.Connection, place: int, id: str, source: SourceAct) -> None:
    """Add a source; of many, the first and the newest stay."""
    sql = "UPDATE memories SET count = count + 1 WHERE place = ? RETURNING count"
    (number,) = database.execute(sql, (place,)).fetchone()
    database.execute(
        "INSERT OR REPLACE INTO sources (id, place, number, agent, event, cycle) VALUES (?, ?, ?, ?, ?, ?)",
        (id, place, number, source.agent, source.event, source.cycle),
    )
    if number > MOST_SOURCES:
        database.execute(
            "DELETE FROM sources WHERE place = ? AND number > 1 AND number <= ?", (place, number - MOST_SOURCES + 1)
        )


def _raise(database: sqlite3.Connection, place: int, importance: float, at: float) -> None:
    """Importance and time are the highest of all sources."""
    before = database.execute("SELECT importance, at FROM memories WHERE place = ?", (place,)).fetchone()
    highest, newest = max(importance, before[0]), max(at, before[1])
    database.execute(
        "UPDATE memories SET importance = ?, at = ?, worth = ? WHERE place = ?",
        (highest, newest, worth(highest, newest), place),
    )


def _revise(database: sqlite3.Connection, place: int, memory: Memory) -> None:
    """Replace a memory of one source by a later revision of it; one that others were merged into stays as it is."""
    database.execute(
        "UPDATE memories SET text = ?, importance = ?, revision = ?, worth = ?, digest = ?, bits = NULL "
        "WHERE place = ? AND id = ? AND count = 1 AND revision < ?",
        (
            memory.text,
            memory.importance,
            memory.revision,
            worth(memory.importance, memory.at),
            key_of(memory.text),
            *(place, memory.id, memory.revision),
        ),
    )

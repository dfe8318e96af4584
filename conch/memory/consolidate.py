"""Compares new memories with older ones: merges duplicates, names contradictions. No model is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from conch.memory.merge import contradiction_of, is_duplicate
from conch.memory.models import MemoryKind
from conch.memory.rows import WordIndex, figure
from conch.memory.words import cue_words
from conch.memory.writing import merge
from conch_schemas import ContradictoryMemories, MergedMemory

COMPARED: Final = 64
"""New memories that one consolidation compares at most; the others wait for the next one."""
CANDIDATES: Final = 8
"""Older memories that each is compared with: those with the most of its words."""
MOST_CONTRADICTIONS: Final = 8
"""Contradictions of one memory that are kept."""
SHOWN_TEXT: Final = 400
"""Most characters of a memory's text in what a consolidation reports."""
COMPARED_KINDS: Final[tuple[MemoryKind, ...]] = ("note", "fact", "lesson")
"""Episodes and messages are what happened: two that are alike happened twice."""


@dataclass(frozen=True)
class Consolidation:
    """What one consolidation did."""

    looked_at: int = 0
    """Memories that were compared."""
    merged: tuple[MergedMemory, ...] = ()
    contradictions: tuple[ContradictoryMemories, ...] = ()

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to report."""
        return bool(self.merged or self.contradictions)


@dataclass(frozen=True)
class _Row:
    place: int
    id: str
    kind: MemoryKind
    text: str


def joined(first: Consolidation, then: Consolidation) -> Consolidation:
    """What two consolidations did, one after the other, as one. A memory that others were merged into twice has one
    entry, as of the second time; one that was merged into another itself has none. Pure."""
    gone = {id for one in then.merged for id in one.merged}
    again = {one.memory: one for one in then.merged}
    merged = []
    for one in first.merged:
        if (later := again.pop(one.memory, None)) is not None:
            merged.append(later.model_copy(update={"merged": one.merged + later.merged}))
        elif one.memory not in gone:
            merged.append(one)
    return Consolidation(
        first.looked_at + then.looked_at,
        (*merged, *again.values()),
        first.contradictions + then.contradictions,
    )


def consolidated(database: sqlite3.Connection, index: WordIndex, most: int) -> Consolidation:
    """Compare the next new memories, `most` at most, within the caller's transaction."""
    holes = ", ".join("?" * len(COMPARED_KINDS))
    sql = (
        f"SELECT place, id, kind, text FROM memories WHERE place > ? AND kind IN ({holes}) "  # noqa: S608
        "ORDER BY place LIMIT ?"
    )
    start = figure(database, "consolidated")
    news = [_Row(*row) for row in database.execute(sql, (start, *COMPARED_KINDS, most))]
    gone: dict[int, list[str]] = {}
    named: list[ContradictoryMemories] = []
    for row in news:
        for older in _candidates(database, index, row):
            if older.kind == row.kind and is_duplicate(older.text, row.text):
                merge(database, older.place, row.place)
                gone.setdefault(older.place, []).append(row.id)
                break
            if (why := contradiction_of(older.kind, older.text, row.kind, row.text)) is not None and _name(
                database, older.place, row.place, why
            ):
                texts = (older.text[:SHOWN_TEXT], row.text[:SHOWN_TEXT])
                named.append(ContradictoryMemories(one=older.id, other=row.id, texts=texts, why=why))
    if news:
        database.execute("UPDATE state SET value = ? WHERE key = 'consolidated'", (news[-1].place,))
    return Consolidation(len(news), tuple(_merged(database, gone)), tuple(named))


def _candidates(database: sqlite3.Connection, index: WordIndex, row: _Row) -> list[_Row]:
    """The older memories with the most of its words, the best first."""
    found = index.matches(database, cue_words(row.text), CANDIDATES + 1)
    places = [place for place in found if place < row.place]
    sql = "SELECT place, id, kind, text FROM memories WHERE place = ?"
    rows = (database.execute(sql, (place,)).fetchone() for place in places)
    return [one for one in (_Row(*found) for found in rows) if one.kind in COMPARED_KINDS]


def _name(database: sqlite3.Connection, one: int, other: int, why: str) -> bool:
    """Store a contradiction; False where either memory has as many as are kept."""
    sql = "SELECT count(*) FROM contradictions WHERE one IN (?1, ?2) OR other IN (?1, ?2)"
    if database.execute(sql, (one, other)).fetchone()[0] >= MOST_CONTRADICTIONS:
        return False
    database.execute("INSERT OR IGNORE INTO contradictions VALUES (?, ?, ?)", (one, other, why))
    return True


def _merged(database: sqlite3.Connection, gone: dict[int, list[str]]) -> Iterator[MergedMemory]:
    for place, ids in gone.items():
        row = database.execute("SELECT id, text FROM memories WHERE place = ?", (place,)).fetchone()
        if row is None:  # it was merged into a third one itself
            continue
        sql = "SELECT event FROM sources WHERE place = ? ORDER BY number"
        events = tuple(dict.fromkeys(event for (event,) in database.execute(sql, (place,))))
        yield MergedMemory(memory=row[0], text=row[1][:SHOWN_TEXT], merged=tuple(ids), sources=events)

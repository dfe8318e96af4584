"""Reads memories from the open file: rows with their sources, words looked up in the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from conch.memory.models import SourceAct, StoredMemory

COMMON: Final = 4_000
"""Memories in which a word occurs, from which it is common: it is looked up only where a cue has no other."""
MOST_RANKED: Final = 8_000
"""Memories that one lookup ranks at most, about: FTS5 ranks every match, 1 to 2 µs each."""
KNOWN_FREQUENCIES: Final = 4_096
"""Words whose frequency is remembered."""

_COLUMNS = "place, id, kind, text, importance, at, count"


class WordIndex:
    """Looks words up in the full-text index. Remembers which words are common."""

    def __init__(self) -> None:
        self._frequencies: dict[str, int] = {}

    def matches(self, database: sqlite3.Connection, words: Sequence[str], most: int) -> dict[int, float]:
        """The memories with some of these words, `most` at most, by place: 0 to 1 relative to the best one.

        The rarest words are looked up, by BM25; of a cue with common words alone, the newest memories are compared, by
        the share of the words.
        """
        known = {word: self._frequency(database, word) for word in words}
        rare = sorted((word for word, count in known.items() if 0 < count < COMMON), key=known.__getitem__)
        chosen: list[str] = []
        ranked = 0
        for word in rare:
            if chosen and ranked + known[word] > MOST_RANKED:
                break
            chosen.append(word)
            ranked += known[word]
        if chosen:
            return _ranked(database, chosen, most)
        return _newest(database, [word for word, count in known.items() if count], most)

    def _frequency(self, database: sqlite3.Connection, word: str) -> int:
        """Memories with this word, counted up to COMMON."""
        if (known := self._frequencies.get(word)) is not None and known >= COMMON:
            return known
        sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
        count = int(database.execute(sql, (_quoted([word]), COMMON)).fetchone()[0])
        if count >= COMMON:
            if len(self._frequencies) >= KNOWN_FREQUENCIES:
                self._frequencies.clear()
            self._frequencies[word] = count
        return count


def _quoted(words: Iterable[str]) -> str:
    """The query for any of these words; each has letters, digits and `_` alone."""
    return " OR ".join(f'"{word}"' for word in words)


def _ranked(database: sqlite3.Connection, words: Sequence[str], most: int) -> dict[int, float]:
    sql = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank, rowid DESC LIMIT ?"
    found = database.execute(sql, (_quoted(words), most)).fetchall()
    return {place: rank / found[0][1] for place, rank in found}


def _newest(database: sqlite3.Connection, words: Sequence[str], most: int) -> dict[int, float]:
    if not words:
        return {}
    shares: dict[int, float] = {}
    sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
    for word in words:
        for (place,) in database.execute(sql, (_quoted([word]), most)):
            shares[place] = shares.get(place, 0.0) + 1.0 / len(words)
    best = max(shares.values(), default=1.0)
    kept = sorted(shares, key=lambda place: (-shares[place], -place))[:most]
    return {place: shares[place] / best for place in kept}


def stored(database: sqlite3.Connection, places: Sequence[int]) -> dict[int, StoredMemory]:
    """The memories at these places, by place; a place without one is left out."""
    if not places:
        return {}
    holes = ", ".join("?" * len(places))
    sources: dict[int, list[SourceAct]] = {}
    sql = f"SELECT place, agent, event, cycle FROM sources WHERE place IN ({holes}) ORDER BY place, number"  # noqa: S608
    for place, agent, event, cycle in database.execute(sql, places):
        sources.setdefault(place, []).append(SourceAct(agent, event, cycle))
    against: dict[int, list[str]] = {}
    for mine, theirs in (("one", "other"), ("other", "one")):
        sql = (
            f"SELECT {mine}, id FROM contradictions JOIN memories ON place = {theirs} "  # noqa: S608 - two known names
            f"WHERE {mine} IN ({holes}) ORDER BY {theirs}"
        )
        for place, other in database.execute(sql, places):
            against.setdefault(place, []).append(other)
    rows = database.execute(f"SELECT {_COLUMNS} FROM memories WHERE place IN ({holes})", places)  # noqa: S608
    return {
        place: StoredMemory(
            id, kind, text, importance, at, tuple(sources.get(place, ())), count, tuple(against.get(place, ()))
        )
        for place, id, kind, text, importance, at, count in rows
    }


def places_of(database: sqlite3.Connection, beginning: str, most: int) -> list[int]:
    """The places of the memories whose ids begin so, `most` at most."""
    sql = "SELECT place FROM memories WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
    return [row[0] for row in database.execute(sql, (beginning, f"{beginning}g", most))]


def figure(database: sqlite3.Connection, key: str) -> int:
    """A figure of the file's state."""
    return int(database.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()[0])

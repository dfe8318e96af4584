"""`LongTermMemory`: an agent's memory in a file of its home."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from conch.memory.consolidate import COMPARED, Consolidation, consolidated, joined
from conch.memory.file import MemoryFile
from conch.memory.models import Memory, MemoryKind, RecalledMemory, StoredMemory
from conch.memory.rows import WordIndex, figure, places_of, stored
from conch.memory.scoring import score
from conch.memory.words import cue_words
from conch.memory.writing import MERGED_SHARE, add, bound, forget, merge_index, newest_place
from conch.tools import FilePool
from conch_schemas import ContradictoryMemories, MergedMemory

if TYPE_CHECKING:
    from conch.memory.embed import Embedder

MOST: Final = 50_000
"""Memories of an agent that are kept, where the settings say nothing."""
MOST_BYTES: Final = 64 * 2**20
"""Bytes of their texts, the same."""
RANKED: Final = 100
"""Memories that fit a cue best by their words, which are ranked by recency and importance too."""


class LongTermMemory:
    """The memories in the file at `path`, which is made with the first one. For one thread; other processes may use the
    file beside this one. Methods raise StoreError, with what to do, where the file cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        pool: FilePool | None = None,
        set_aside: bool = False,
        embedder: Embedder | None = None,
    ) -> None:
        """`most`, `most_bytes`: of memories and of their texts' bytes; beyond, what is worth least is dropped.
        `set_aside`: a damaged file is renamed, and the next use begins an empty one. `embedder`: finds memories by
        their sense too; None: by their words alone."""
        self._most, self._most_bytes = most, most_bytes
        self._file, self._index = MemoryFile(path, pool=pool, set_aside=set_aside), WordIndex()
        self._senses = None
        if embedder is not None:
            from conch.memory.embed import SenseIndex

            self._senses = SenseIndex(embedder)

    def add(self, memories: Iterable[Memory]) -> int:
        """Store memories in one transaction; returns how many are new. The same memory again changes nothing, a later
        revision replaces it; one that says the same as another of its kind becomes a source of that one."""

        def write(database: sqlite3.Connection) -> int:
            before = newest_place(database)
            new = sum([add(database, memory) for memory in memories])
            bound(database, self._most, self._most_bytes)
            added = int(MERGED_SHARE * self._most)
            if newest_place(database) // added > before // added:
                merge_index(database)
            if self._senses is not None:
                self._senses.embed_missing(database)
            return new

        return self._file.written(write)

    def recall(
        self, cue: str, limit: int, *, now: float, before: int | None = None, leave_out: Iterable[str] = ()
    ) -> tuple[RecalledMemory, ...]:
        """The memories that fit the cue, the highest score first. A cue without telling words recalls nothing.

        `now`: seconds since the epoch. `before`: those of this cycle and later ones are left out. `leave_out`: texts
        that are known to the asker.
        """
        if not (words := cue_words(cue)) or not self._exists:
            return ()
        known = set(leave_out)

        def read(database: sqlite3.Connection) -> tuple[RecalledMemory, ...]:
            fits = self._index.matches(database, words, RANKED)
            if self._senses is not None:
                fits = self._senses.fused(database, words, fits, RANKED)
            found = stored(database, list(fits))
            ranked = [
                RecalledMemory(memory, score(fits[place], memory.importance, memory.at, now), fits[place])
                for place, memory in found.items()
                if memory.text not in known and not _is_later(memory, before)
            ]
            return tuple(sorted(ranked, key=lambda one: (-one.score, one.memory.id))[:limit])

        return self._file.used(read)

    def newest(
        self, limit: int, kind: MemoryKind | None = None, cycles: tuple[int, int] | None = None
    ) -> tuple[StoredMemory, ...]:
        """The last memories by the time of their newest source, the newest first; with `cycles`, those that have a
        source among the cycles of the first to the last number."""
        if not self._exists:
            return ()

        def read(database: sqlite3.Connection) -> tuple[StoredMemory, ...]:
            first, last = cycles or (None, None)
            sql = (
                "SELECT place FROM memories WHERE (?1 IS NULL OR kind = ?1) AND (?3 IS NULL OR EXISTS (SELECT 1 "
                "FROM sources WHERE sources.place = memories.place AND cycle BETWEEN ?3 AND ?4)) "
                "ORDER BY place DESC LIMIT ?2"
            )
            places = [row[0] for row in database.execute(sql, (kind, limit, first, last))]
            return _in_order(database, places)

        return self._file.used(read)

    def find(self, beginning: str, limit: int = 2) -> tuple[StoredMemory, ...]:
        """The memories whose ids begin so, `limit` at most."""
        if not self._exists:
            return ()
        return self._file.used(lambda database: _in_order(database, places_of(database, beginning, limit)))

    def forget(self, ids: Sequence[str]) -> int:
        """Delete memories for good, in one transaction: their words are overwritten in the file, and an event that is
        read again does not bring them back. Returns how many there were."""
        if not self._exists:
            return 0

        def write(database: sqlite3.Connection) -> int:
            places = [place for id in ids for place in places_of(database, id, 1)]
            for place in places:
                forget(database, place)
            return len(places)

        def rewrite(database: sqlite3.Connection) -> None:
            merge_index(database)
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._file.used(lambda database: database.execute("PRAGMA secure_delete = ON").fetchall())
        gone = self._file.written(write)
        self._file.used(rewrite)
        return gone

    def of_events(self, events: Iterable[str]) -> list[str]:
        """Ids of the memories that come from one of these events."""
        if not self._exists:
            return []
        wanted = set(events)

        def read(database: sqlite3.Connection) -> list[str]:
            rows = database.execute("SELECT memories.id, sources.event FROM sources JOIN memories USING (place)")
            return sorted({id for id, event in rows if event in wanted})

        return self._file.used(read)

    def compare(self, most: int) -> int:
        """Compare new memories with older ones ahead of the next consolidation, which reports them with its own: `most`
        at most, and COMPARED between two consolidations. Returns how many were compared."""
        if not self._exists:
            return 0

        def write(database: sqlite3.Connection) -> int:
            before = _gathered(database)
            found = consolidated(database, self._index, max(0, min(most, COMPARED - before.looked_at)))
            if found.looked_at:
                _put(database, "gathered", _packed(None, joined(before, found)))
            return found.looked_at

        return self._file.written(write)

    def consolidate(self, cycle: int | None = None, most: int = COMPARED) -> Consolidation:
        """Compare new memories with older ones: merge duplicates, name contradictions. Bounded work: `most` memories,
        and no more than COMPARED with those that `compare` has compared; what both did is returned.

        A second call for the same cycle returns what the first one did, and does nothing: a crash between its
        transaction and the event that reports it loses no report. None: of no cycle.
        """
        if not self._exists:
            return Consolidation()

        def write(database: sqlite3.Connection) -> Consolidation:
            row = database.execute("SELECT value FROM state WHERE key = 'last'").fetchone()
            if cycle is not None and row is not None and (last := json.loads(row[0]))["cycle"] == cycle:
                return _parsed(last)
            before = _gathered(database)
            own = consolidated(database, self._index, max(0, min(most, COMPARED - before.looked_at)))
            found = joined(before, own)
            database.execute("DELETE FROM state WHERE key = 'gathered'")
            if cycle is not None:
                _put(database, "last", _packed(cycle, found))
            return found

        return self._file.written(write)

    def copy(self, to: Path) -> None:
        """Write all of it into a new file, of one moment, also while other processes write. Raises StoreError where
        there is no room."""
        self._file.used(lambda database: database.execute("VACUUM INTO ?", (str(to),)).fetchall())

    def __len__(self) -> int:
        return self._file.used(lambda database: figure(database, "count")) if self._exists else 0

    @property
    def text_bytes(self) -> int:
        """Bytes of all texts."""
        return self._file.used(lambda database: figure(database, "bytes")) if self._exists else 0

    def close(self) -> None:
        """Close the file until its next use."""
        self._file.shut()

    @property
    def _exists(self) -> bool:
        return self._file.path.exists()


def _is_later(memory: StoredMemory, before: int | None) -> bool:
    """Whether it comes from this cycle or a later one alone."""
    if before is None or not memory.sources:
        return False
    return all(source.cycle is not None and source.cycle >= before for source in memory.sources)


def _in_order(database: sqlite3.Connection, places: Sequence[int]) -> tuple[StoredMemory, ...]:
    found = stored(database, places)
    return tuple(found[place] for place in places)


def _gathered(database: sqlite3.Connection) -> Consolidation:
    """What was compared since the last consolidation."""
    row = database.execute("SELECT value FROM state WHERE key = 'gathered'").fetchone()
    return Consolidation() if row is None else _parsed(json.loads(row[0]))


def _put(database: sqlite3.Connection, key: str, value: str) -> None:
    database.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))


def _packed(cycle: int | None, found: Consolidation) -> str:
    return json.dumps(
        {
            "cycle": cycle,
            "looked_at": found.looked_at,
            "merged": [one.model_dump(mode="json") for one in found.merged],
            "contradictions": [one.model_dump(mode="json") for one in found.contradictions],
        }
    )


def _parsed(packed: dict[str, object]) -> Consolidation:
    merged, contradictions, looked_at = packed["merged"], packed["contradictions"], packed["looked_at"]
    assert isinstance(merged, list)
    assert isinstance(contradictions, list)
    assert isinstance(looked_at, int)
    return Consolidation(
        looked_at,
        tuple(MergedMemory.model_validate(one) for one in merged),
        tuple(ContradictoryMemories.model_validate(one) for one in contradictions),
    )

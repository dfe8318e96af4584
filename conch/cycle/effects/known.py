"""The lines that an agent knows, in a file of its home: an exact, bounded index."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

from conch.cycle.effects.noise import Trigrams
from conch.cycle.effects.state import MeterState
from conch.errors import StoreError
from conch.log import get_logger
from conch.tools import FilePool

log = get_logger(__name__)
T = TypeVar("T")

MOST_WORDS = 20_000
"""Words of messages and goals that are known at most: the vocabulary of a fluent adult's writing."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS lines (place INTEGER PRIMARY KEY, digest INTEGER NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS words (place INTEGER PRIMARY KEY, digest INTEGER NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""
_KNOWN_LINES = "SELECT digest FROM lines WHERE digest IN (SELECT value FROM json_each(?))"
_KNOWN_WORDS = "SELECT digest FROM words WHERE digest IN (SELECT value FROM json_each(?))"
_ADD_LINE = "INSERT OR IGNORE INTO lines (digest) VALUES (?)"
_ADD_WORD = "INSERT OR IGNORE INTO words (digest) VALUES (?)"
_TRIM_LINES = "DELETE FROM lines WHERE place <= (SELECT max(place) FROM lines) - ?"
_TRIM_WORDS = "DELETE FROM words WHERE place <= (SELECT max(place) FROM words) - ?"

_OF_THE_MACHINE = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOLFS),
    }
)
"""Primary result codes of SQLite that say nothing of the file's content."""


class KnownLines:
    """The known lines in the file at `path`, the newest `most`, with the state of the measuring. For one thread.

    The file is opened on its first use, and closed and opened again as the pool says. It survives a kill at any moment:
    `store` is one transaction. It is not synced to disk: where the power fails, the last lines may be forgotten. A file
    whose content is damaged, its database or its state, is set aside as `….damaged`, and the agent begins anew. Methods
    raise StoreError.
    """

    def __init__(self, path: Path, *, most: int, pool: FilePool, read_before: str = "") -> None:
        """`read_before`: text that every agent has read when it begins, such as its system prompt."""
        self.path = path
        self._most, self._pool, self._read_before = most, pool, read_before
        self._open: sqlite3.Connection | None = None
        self._trigrams: Trigrams | None = None

    def known(self, digests: Collection[int]) -> set[int]:
        """Those of the lines that are known."""
        return self._among(_KNOWN_LINES, digests)

    def known_words(self, digests: Collection[int]) -> set[int]:
        """Those of the words that were in a message or a goal."""
        return self._among(_KNOWN_WORDS, digests)

    def state(self) -> MeterState:
        """The state as it was last stored."""

        def parsed(database: sqlite3.Connection) -> MeterState:
            found = _value(database, "meter")
            return MeterState.model_validate_json(found) if found is not None else MeterState()

        return self._used(parsed)

    def trigrams(self, letters: dict[str, int]) -> Trigrams:
        """The trigrams that were read, with the letters of `state`."""
        if self._trigrams is None:
            found = self._used(lambda database: _value(database, "trigrams"))
            self._trigrams = Trigrams(found, letters) if found is not None else Trigrams()
            for line in self._read_before.splitlines() if found is None else ():
                self._trigrams.learn([line])
        return self._trigrams

    def store(self, lines: Iterable[int], words: Collection[int], state: MeterState, *, learnt: bool) -> None:
        """Store what one act left, all of it or nothing; the oldest lines beyond `most` are forgotten. A line that is
        known keeps its place. `learnt`: whether the trigrams have changed."""
        values = [("meter", state.model_dump_json().encode())]
        if learnt and self._trigrams is not None:
            values.append(("trigrams", bytes(self._trigrams)))

        def write(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            with database:
                database.executemany(_ADD_LINE, [(digest,) for digest in lines])
                database.execute(_TRIM_LINES, (self._most,))
                if words:
                    database.executemany(_ADD_WORD, [(digest,) for digest in words])
                    database.execute(_TRIM_WORDS, (MOST_WORDS,))
                database.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", values)

        self._used(write)

    def shut(self) -> None:
        """Close the file until its next use."""
        if self._open is not None:
            self._open.close()
            self._open = self._trigrams = None

    def _among(self, sql: str, digests: Collection[int]) -> set[int]:
        if not digests:
            return set()
        wanted = json.dumps(list(digests))
        return {row[0] for row in self._used(lambda database: database.execute(sql, (wanted,)).fetchall())}

    def _used(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._open is None:
                self._open = self._opened()
            self._pool.used(self)
            return work(self._open)
        except (sqlite3.Error, ValueError) as error:
            self.shut()
            if _is_damaged(error, self.path):
                self._set_aside(error)
            raise StoreError(f"the known lines in {self.path} cannot be used: {error}") from None

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=5, check_same_thread=False, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # a kill loses nothing, and no act waits for the disk
            database.execute("PRAGMA cache_size = -256")
            database.executescript(_SCHEMA)
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged")
        with contextlib.suppress(OSError):
            self.path.replace(aside)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            log.warning("effect.known_lines_damaged", file=str(self.path), kept=str(aside), error=str(error))


def _value(database: sqlite3.Connection, key: str) -> bytes | None:
    """A value of the state; ValueError where it is of another type."""
    found = database.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
    if found is not None and not isinstance(found[0], bytes):
        raise ValueError(f"the value of {key} is no blob")
    return found[0] if found is not None else None


def _is_damaged(error: Exception, path: Path) -> bool:
    """Whether the file's content is at fault, not the disk, another process or the machine."""
    if isinstance(error, sqlite3.ProgrammingError):
        return False
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_READONLY:  # SQLite opens a file of a later format for reading only
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code not in _OF_THE_MACHINE

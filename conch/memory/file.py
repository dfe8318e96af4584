"""The memory's SQLite file: its layout, opening, and what is done about a damaged one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from conch.errors import StoreError
from conch.log import get_logger
from conch.tools import FilePool

log = get_logger(__name__)
T = TypeVar("T")

MEMORY_FILE: Final = "memory.db"
"""Name of the file in an agent's directory of the home."""
VERSION: Final = 1
"""Version of the layout, SQLite's `user_version`. A newer file is refused."""
BUSY_SECONDS: Final = 5.0
"""Longest wait for another process that writes the file."""

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS memories (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    importance REAL NOT NULL,
    at REAL NOT NULL,
    revision INTEGER NOT NULL,
    count INTEGER NOT NULL,
    worth REAL NOT NULL,
    digest INTEGER NOT NULL,
    bits BLOB
);
CREATE INDEX IF NOT EXISTS memories_worth ON memories (worth);
CREATE INDEX IF NOT EXISTS memories_digest ON memories (digest);
CREATE INDEX IF NOT EXISTS memories_unembedded ON memories (place) WHERE bits IS NULL;
CREATE TABLE IF NOT EXISTS sources (
    id TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    number INTEGER NOT NULL,
    agent TEXT NOT NULL,
    event TEXT NOT NULL,
    cycle INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sources_place ON sources (place, number);
CREATE TABLE IF NOT EXISTS forgotten (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS contradictions (
    one INTEGER NOT NULL, other INTEGER NOT NULL, why TEXT NOT NULL, PRIMARY KEY (one, other)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS contradictions_other ON contradictions (other);
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO state VALUES ('count', 0), ('bytes', 0), ('consolidated', 0);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
    text, content = 'memories', content_rowid = 'place', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON memories BEGIN
    INSERT INTO words (rowid, text) VALUES (new.place, new.text);
    UPDATE state SET value = value + 1 WHERE key = 'count';
    UPDATE state SET value = value + length(CAST(new.text AS BLOB)) WHERE key = 'bytes';
END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON memories BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.place, old.text);
    DELETE FROM sources WHERE place = old.place;
    DELETE FROM contradictions WHERE one = old.place;
    DELETE FROM contradictions WHERE other = old.place;
    UPDATE state SET value = value - 1 WHERE key = 'count';
    UPDATE state SET value = value - length(CAST(old.text AS BLOB)) WHERE key = 'bytes';
END;
CREATE TRIGGER IF NOT EXISTS reworded AFTER UPDATE OF text ON memories WHEN old.text <> new.text BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.place, old.text);
    INSERT INTO words (rowid, text) VALUES (new.place, new.text);
    UPDATE state SET value = value + length(CAST(new.text AS BLOB)) - length(CAST(old.text AS BLOB))
        WHERE key = 'bytes';
END;
COMMIT;
"""
_OF_THE_MACHINE = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_READONLY),
    }
)
"""Primary result codes of SQLite that say nothing of the file's content."""


class MemoryFile:
    """The file at `path`, opened on its first use. In a pool it is closed and opened again as the pool says. For one
    thread; other processes may read and write it beside this one.

    A kill at any moment leaves the last whole transaction; a power cut may take the last ones. With `set_aside`, a
    damaged file is renamed to `….damaged` and the next use begins an empty one. Raises StoreError.
    """

    def __init__(self, path: Path, *, pool: FilePool | None = None, set_aside: bool = False) -> None:
        self.path = path
        self._pool, self._sets_aside = pool, set_aside
        self._open: sqlite3.Connection | None = None

    def used(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns of the open file."""
        try:
            if self._open is None:
                self._open = self._opened()
            if self._pool is not None:
                self._pool.used(self)
            return work(self._open)
        except sqlite3.Error as error:
            self.shut()
            raise self._refused(error) from None

    def written(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, as one transaction: all of it is stored, or nothing."""

        def whole(database: sqlite3.Connection) -> T:
            database.execute("BEGIN IMMEDIATE")
            with database:
                return work(database)

        return self.used(whole)

    def shut(self) -> None:
        """Close the file until its next use."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)
        try:
            found = int(database.execute("PRAGMA user_version").fetchone()[0])
            if found > VERSION:
                raise StoreError(
                    f"the memory in {self.path} was written by a newer version (layout {found}, this one knows "
                    f"{VERSION}): upgrade conch-agent, or move the file away to begin an empty memory"
                )
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            if found < VERSION:
                database.executescript(_SCHEMA)
                database.execute(f"PRAGMA user_version = {VERSION}")
        except (sqlite3.Error, StoreError):
            database.close()
            raise
        return database

    def _refused(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if isinstance(error, sqlite3.ProgrammingError) or code in _OF_THE_MACHINE:
            help_ = "make room, or look after the file and its directory"
        elif self._sets_aside:
            help_ = self._set_aside(error)
        else:
            help_ = "move the file away to begin an empty memory; the experiences stay in the store"
        return StoreError(f"the memory in {self.path} cannot be used: {error}; {help_}")

    def _set_aside(self, error: sqlite3.Error) -> str:
        aside = self.path.with_name(f"{self.path.name}.damaged")
        with contextlib.suppress(OSError):
            os.replace(self.path, aside)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            log.warning("memory.damaged", file=str(self.path), kept=str(aside), error=str(error))
            return f"it was moved to {aside}, and an empty memory begins"
        return "it is damaged and cannot be moved away: look after its directory"

"""Storage of an agent's notes: one SQLite file, with full-text search."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Self

from conch.errors import StoreError, ToolError
from conch.text import well_formed
from conch.tools.file_pool import FilePool

MAX_NOTES = 10_000
"""Most notes kept; beyond, the oldest are deleted."""

MAX_NOTE = 4_000
"""Most characters of a note."""

MAX_WORDS = 64
"""Most words of a query that are used."""

_WORD = re.compile(r"\w+")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content = 'notes', content_rowid = 'id');
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON notes BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON notes BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
END;
"""


class Notes:
    """Notes in the file at `path`, which is created if it is missing. For one thread at a time.

    In a pool the file is opened on use, and created with the first note. All methods raise StoreError, with what to do,
    where the file cannot be read or written, or is closed.
    """

    def __init__(self, path: Path | str, *, limit: int = MAX_NOTES, shelf: FilePool | None = None) -> None:
        self.path = path
        self._limit, self._shelf = limit, shelf
        self._open: sqlite3.Connection | None = None
        self._closed = False
        if shelf is None:
            self._open = self._opened()

    @property
    def _database(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"the notes in {self.path} cannot be used: they are closed")
        if self._open is None:
            self._open = self._opened()
        if self._shelf is not None:
            self._shelf.used(self)
        return self._open

    def _opened(self) -> sqlite3.Connection:
        try:
            database = sqlite3.connect(self.path, timeout=5, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise self._problem(error) from None
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(_SCHEMA)
        except sqlite3.Error as error:
            database.close()
            raise self._problem(error) from None
        return database

    def _is_empty(self) -> bool:
        """Whether there is no file yet."""
        return self._shelf is not None and self._open is None and not Path(self.path).exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def remember(self, text: str) -> bool:
        """Store a note; False if the same text is stored already. Raises ToolError for an empty or too long one."""
        text = well_formed(text).strip().replace("\0", "�")
        if not text:
            raise ToolError("a note needs some text")
        if len(text) > MAX_NOTE:
            raise ToolError(f"a note has at most {MAX_NOTE} characters, this one has {len(text)}")
        database = self._database
        try:
            with database:
                database.execute("BEGIN IMMEDIATE")
                added = database.execute("INSERT OR IGNORE INTO notes (text) VALUES (?)", (text,)).rowcount
                database.execute(
                    "DELETE FROM notes WHERE id <= (SELECT id FROM notes ORDER BY id DESC LIMIT 1 OFFSET ?)",
                    (self._limit,),
                )
        except sqlite3.Error as error:
            raise self._problem(error) from None
        return added > 0

    def recall(self, text: str, limit: int = 5) -> tuple[str, ...]:
        """The notes with the most words of `text`, the best first; the latest notes where `text` has no word."""
        if self._is_empty():
            return ()
        words = dict.fromkeys(word.lower() for word in _WORD.findall(well_formed(text)))
        query = " OR ".join(f'"{word}"' for word in list(words)[:MAX_WORDS])
        try:
            if query:
                sql = "SELECT text FROM words WHERE words MATCH ? ORDER BY rank, rowid DESC LIMIT ?"
                rows = self._database.execute(sql, (query, limit)).fetchall()
            else:
                rows = self._database.execute("SELECT text FROM notes ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
        except sqlite3.Error as error:
            raise self._problem(error) from None
        return tuple(row[0] for row in rows)

    def forget(self, text: str) -> bool:
        """Delete the note with this text; False where there is none."""
        if self._is_empty():
            return False
        try:
            return self._database.execute("DELETE FROM notes WHERE text = ?", (text,)).rowcount > 0
        except sqlite3.Error as error:
            raise self._problem(error) from None

    def __len__(self) -> int:
        try:
            return int(self._database.execute("SELECT count(*) FROM notes").fetchone()[0])
        except sqlite3.Error as error:
            raise self._problem(error) from None

    def close(self) -> None:
        """Close the file for good. A second call does nothing."""
        self._closed = True
        self.shut()

    def shut(self) -> None:
        """Close the file until its next use."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _problem(self, error: sqlite3.Error) -> StoreError:
        help_ = (
            "move the file away to begin with no notes"
            if "malformed" in str(error) or "not a database" in str(error)
            else "look after the file and its directory"
        )
        return StoreError(f"the notes in {self.path} cannot be used: {error}; {help_}")

"""The SQLite file: its tables, how it is opened, and what is said when it cannot be used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from conch.errors import StoreError

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x434E4358
"""`CNCX` in the file's header: an experience store of ours, not anybody's database."""

MEMORY: Final = ":memory:"

# Facts are kept as they came, one narrow table a kind: a primary key makes "twice is once" the database's own rule.
# `seq` is a fact's place: the stream's sequence, plus the meta value `base` since the stream was replaced.
_TABLES: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE acts (
        action_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, cycle INTEGER NOT NULL,
        started REAL NOT NULL, due REAL, body BLOB NOT NULL)""",
    "CREATE INDEX acts_by_cycle ON acts (agent, cycle, action_id)",
    "CREATE INDEX acts_by_seq ON acts (agent, seq)",
    "CREATE INDEX acts_by_due ON acts (due) WHERE due IS NOT NULL",
    """CREATE TABLE scores (
        action_id TEXT, scorer TEXT, version TEXT, component TEXT, seq INTEGER NOT NULL, status TEXT NOT NULL,
        value REAL, low REAL NOT NULL, high REAL NOT NULL, explanation TEXT NOT NULL,
        PRIMARY KEY (action_id, scorer, version, component)) WITHOUT ROWID""",
    """CREATE TABLE contexts (
        action_id TEXT, kind TEXT, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (action_id, kind))""",
    """CREATE TABLE needs (
        id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, action_id TEXT, body BLOB NOT NULL)""",
    "CREATE INDEX needs_by_seq ON needs (agent, seq)",
    "CREATE INDEX needs_by_action ON needs (action_id, seq) WHERE action_id IS NOT NULL",
    "CREATE TABLE weights (agent TEXT, seq INTEGER, body BLOB NOT NULL, PRIMARY KEY (agent, seq))",
    """CREATE TABLE marks (
        id TEXT, hash TEXT, agent TEXT NOT NULL, sequence INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (id, hash))""",
    "CREATE INDEX marks_by_sequence ON marks (agent, sequence, seq)",
    """CREATE TABLE experiences (
        action_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, agent TEXT NOT NULL, cycle INTEGER NOT NULL,
        revision INTEGER NOT NULL, recorded TEXT NOT NULL, outcome TEXT NOT NULL, verdict BLOB NOT NULL)""",
    "CREATE INDEX experiences_by_cycle ON experiences (agent, cycle, seq)",
    "CREATE INDEX experiences_by_seq ON experiences (seq)",
    "CREATE TABLE outbox (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
)

_JOURNAL_LIMIT: Final = 64 * 1024 * 1024


def open_writer(path: Path | str, timeout: float) -> sqlite3.Connection:
    """The store at `path` (or MEMORY), made if there is none; every commit is on disk before it returns.

    `timeout`: seconds to wait for another writer. Raises StoreError; a file that is no store of ours is left as it is.
    """
    with told(path):
        connection = _connect(path, "rwc", timeout)
        try:
            _refuse_strangers(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
            _create(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def open_reader(path: Path | str, timeout: float) -> sqlite3.Connection:
    """The store at `path`, for reading beside a writer. Raises StoreError, also where there is none yet."""
    if not Path(path).exists():
        raise StoreError(f"There is no experience store at {path} yet: start a run first.")
    with told(path):
        connection = _connect(path, "ro", timeout)
        try:
            if _refuse_strangers(connection, path) == 0:
                raise StoreError(f"The experience store {path} holds nothing yet: start a run first.")
        except BaseException:
            connection.close()
            raise
        return connection


def _connect(path: Path | str, mode: str, timeout: float) -> sqlite3.Connection:
    where = MEMORY if path == MEMORY else f"file:{quote(str(Path(path).absolute()))}?mode={mode}"
    return sqlite3.connect(where, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True)


def _refuse_strangers(connection: sqlite3.Connection, path: Path | str) -> int:
    """The file's schema version, 0 for an empty file."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not an experience store: give store.url another path.")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"The experience store {path} was written by a newer Conch (schema {version}, this one knows "
            f"{SCHEMA_VERSION}): use that version."
        )
    return version


def _create(connection: sqlite3.Connection) -> None:
    """All tables or none: a kill in between leaves an empty file."""
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for table in _TABLES:
                connection.execute(table)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All or nothing, whatever is raised inside."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite rolls back by itself after some errors (a full disk); then there is nothing left to do.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def told(path: Path | str) -> Iterator[None]:
    """Turns SQLite's errors into one StoreError that says what is wrong, where, and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(_sentence(error, path)) from error


def _sentence(error: sqlite3.Error, path: Path | str) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"The experience store {path} is being written by another process: stop that one and try again."
        case sqlite3.SQLITE_FULL:
            return f"The disk is full, the experience store {path} cannot grow: make room; nothing stored is lost."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"The experience store {path} cannot be used ({error}): check that it is there and may be written."
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            return damaged(path, error)
        case sqlite3.SQLITE_IOERR:
            return f"The disk under the experience store {path} failed ({error}): check the disk, then run again."
        case _:
            return f"The experience store {path} cannot be used: {error}."


def damaged(path: Path | str, what: object) -> str:
    """The sentence for a store whose content is not what was written."""
    return (
        f"The experience store {path} is damaged ({what}): move it aside and run again, "
        "it is rebuilt from the stream as far back as that is kept."
    )

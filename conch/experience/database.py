"""The SQLite file: its tables, how it is opened, and what is said when it cannot be used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from conch.errors import NoStoreError, StoreError
from conch.experience.tables import SCHEMA_VERSION, TABLES, bring_up
from conch_schemas import ContractViolationError

APPLICATION_ID: Final = 0x434E4358
"""`CNCX` in the file's header: an experience store of ours, not anybody's database."""

MEMORY: Final = ":memory:"

_PAGE: Final = 8192
"""Bytes of a page: of half the size, an act alone would leave half of it empty."""
_CHECKPOINT: Final = 2000
"""Pages of the write-ahead log after which they are put where they belong, each once however often it was written."""
_JOURNAL_LIMIT: Final = 64 * 1024 * 1024


def open_writer(path: Path | str, timeout: float) -> sqlite3.Connection:
    """The store at `path` (or MEMORY), made where there is none; every commit is on disk before it returns.

    An older one is brought up. `timeout`: seconds to wait for another writer. Raises StoreError; a file that is no
    store of ours is left as it is.
    """
    with told(path):
        connection = _connect(path, "rwc", timeout)
        try:
            _refuse_strangers(connection, path)
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
            _create(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def open_reader(path: Path | str, timeout: float) -> sqlite3.Connection:
    """The store at `path`, for reading beside a writer; an older one is brought up first.

    Raises StoreError, also where there is none yet.
    """
    if not Path(path).exists():
        raise NoStoreError(f"There is no experience store at {path} yet: start a run first.")
    with told(path):
        connection = _connect(path, "ro", timeout)
        try:
            version = _refuse_strangers(connection, path)
            if version == 0:
                raise NoStoreError(f"The experience store {path} holds nothing yet: start a run first.")
            if version < SCHEMA_VERSION:
                open_writer(path, timeout).close()
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


def _create(connection: sqlite3.Connection, path: Path | str) -> None:
    """The tables as they are now, made or brought up: all or none, a kill in between leaves the file as it was."""
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for table in TABLES:
                connection.execute(table)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif version < SCHEMA_VERSION:
            try:
                bring_up(connection, version)
            except (ContractViolationError, msgspec.DecodeError) as error:
                raise StoreError(damaged(path, f"a row cannot be read: {type(error).__name__}")) from error
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

"""The SQLite file: its tables, how it is opened, and what is said when it cannot be used."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from conch.errors import NoStoreError, StoreError
from conch.experience import packing
from conch.experience.schema import (
    ADDITIONS,
    MIGRATED_BY,
    NAME_WRITER,
    OPENED_SINCE,
    SCHEMA_VERSION,
    TABLES,
    WRITER,
    describe_newer,
    describe_older,
)
from conch.experience.write_batch import InsertStatement, Row
from conch.version import own_version

T = TypeVar("T")

APPLICATION_ID: Final = 0x434E4358
"""`CNCX` in the file's header: an experience store of ours, not anybody's database."""

MEMORY: Final = ":memory:"

_PAGE: Final = 4096
"""Bytes of a page. A commit writes each page that it changes: for the ten facts of a cycle 118 KiB, in pages of twice
the size 199 KiB and a tenth more processor time. A file keeps the size that it was made with."""
_CHECKPOINT: Final = 2000
"""Pages of the write-ahead log, 8 MiB, after which they are put where they belong, each once however often it was
written."""
_JOURNAL_LIMIT: Final = 64 * 1024 * 1024
_INDEX: Final = 32 * 1024
"""Bytes of the first part of a write-ahead log's index, which is for some 4,000 pages; the others are as large."""
_HELD: Final = 8 * _INDEX
"""For a log of 128 MiB."""
_ROOM: Final = 512 * 1024
"""Bytes that are to be free where an index is made: for it, and what others write meanwhile."""
_DESCRIPTORS: Final = "/proc/self/fd"
_RAISED: Final = "user-defined function raised exception"
"""What SQLite says of any exception in a function of ours but MemoryError and OverflowError."""
_UNDECODED: Final = "Could not decode to UTF-8"
"""Of a text that is no UTF-8, which Python finds and not SQLite: it has no error code."""
_PORTIONS: Final = (64, 8, 1)
"""Rows to a statement: few lengths, so that each statement is prepared once. A statement has its price however few rows
it brings: Python's, SQLite's, and where threads work side by side the price of the interpreter's lock, which is let go
and asked for again around each. SQLite takes 32,766 values since 3.32."""


def open_writer(path: Path | str, timeout: float) -> SqliteConnection:
    """The store at `path` (or MEMORY), made where there is none; every commit is on disk before it returns.

    `timeout`: seconds to wait for another writer. Raises StoreError; a file that is no store of this schema is left as
    it is.
    """
    with _errors_told(path):
        if path != MEMORY and _cannot_index(Path(path)):
            raise StoreError(_full(path))
        _make_private(path)
        connection = _connect(path, "rwc", timeout)
        try:
            _refuse_strangers(connection, path)
            _close_to_others(path)
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
            _create(connection)
            if path != MEMORY:
                _allocate_index(Path(path))
        except BaseException:
            connection.close()
            raise
        return connection


def open_reader(path: Path | str, timeout: float) -> SqliteConnection:
    """The store at `path`, for reading beside a writer.

    Raises StoreError, also where there is none yet.
    """
    if not Path(path).exists():
        raise NoStoreError(f"There is no experience store at {path} yet: start a run first.")
    with _errors_told(path):
        connection = _connect_reader(Path(path), timeout)
        try:
            if _refuse_strangers(connection, path) == 0:
                raise NoStoreError(f"The experience store {path} holds nothing yet: start a run first.")
        except BaseException:
            connection.close()
            raise
        return connection


def _make_private(path: Path | str) -> None:
    """Make the file where there is none, for its owner alone; where that fails, SQLite says why."""
    if path != MEMORY:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _close_to_others(path: Path | str) -> None:
    """Close a store of ours that everybody could read. It is not opened for that: closing it again would let go of the
    locks that SQLite holds on it."""
    if path != MEMORY:
        with suppress(OSError):
            found = os.stat(path)
            if found.st_mode & 0o007 and found.st_uid == os.geteuid():
                os.chmod(path, found.st_mode & 0o700)


def _connect_reader(path: Path, timeout: float) -> SqliteConnection:
    """Also where nothing beside the file can be made: a reader of a write-ahead log makes its index there, else."""
    if _cannot_index(path):
        return _connect_alone(path, timeout)
    connection = _connect(path, "ro", timeout)
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        connection.close()
        is_unable = isinstance(error, sqlite3.OperationalError)
        if not is_unable or os.access(path.parent, os.W_OK) or not os.access(path, os.R_OK):
            raise
        return _connect_alone(path, timeout)
    return connection


def _connect_alone(path: Path, timeout: float) -> SqliteConnection:
    """To a file that no other process has open. What a killed run left in the log counts."""
    log = path.with_name(f"{path.name}-wal")
    if not (log.exists() and log.stat().st_size):
        return _connect(path, "ro&immutable=1", timeout)
    connection = _connect(path, "ro&vfs=unix-none", timeout)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # so the log's index is kept in memory
    return connection


def _cannot_index(path: Path) -> bool:
    """Whether the index of the write-ahead log has still to be made and there is no room for it: SQLite writes it
    through a mapping, where a full disk is no error but the end of the process (SIGBUS)."""
    index = _index(path)
    try:
        if index.exists() and index.stat().st_size >= _INDEX:
            return False
        disk = os.statvfs(path.parent)
    except OSError:
        return False  # opening it says why
    return disk.f_bavail * disk.f_frsize < _ROOM and disk.f_flag & os.ST_RDONLY == 0


def _allocate_index(path: Path) -> None:
    """Have the index's blocks on the disk before they are written to; a connection of this process has the store open.
    Raises StoreError where there is no room.

    It is done by SQLite's own descriptor: to close one of ours would let go of every lock that this process holds on
    the index, whichever connection has it. The next process to open the store would take itself for the first, and cut
    the index off under the mappings of the others (SIGBUS).
    """
    handle = _open_descriptor(_index(path))
    if handle is not None:
        try:
            os.posix_fallocate(handle, 0, _HELD)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise StoreError(_full(path)) from error


def _open_descriptor(file: Path) -> int | None:
    """A descriptor that this process has open to the file; None: it has none, or the system does not list them."""
    try:
        wanted = os.stat(file)
        handles = sorted(int(name) for name in os.listdir(_DESCRIPTORS))
    except OSError:
        return None
    for handle in handles:
        with suppress(OSError):  # the listing's own is closed by now
            if os.path.samestat(os.fstat(handle), wanted):
                return handle
    return None


def _index(path: Path) -> Path:
    """The index of its write-ahead log."""
    return path.with_name(f"{path.name}-shm")


def _connect(path: Path | str, mode: str, timeout: float) -> SqliteConnection:
    where = MEMORY if path == MEMORY else f"file:{quote(str(Path(path).absolute()))}?mode={mode}"
    connection = sqlite3.connect(
        where, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True, factory=SqliteConnection
    )
    connection.name = str(path)
    packing.register(connection)
    return connection


class SqliteConnection(sqlite3.Connection):
    """The `Database` of a SQLite file."""

    name: str = MEMORY

    def insert(self, put: InsertStatement, rows: Sequence[Row]) -> int:
        """See `Database`."""
        return sum(
            self.execute(_insertion(put, len(some)), tuple(chain.from_iterable(some))).rowcount
            for some in _portions(rows)
        )

    def among(self, statement: str, names: Iterable[str | int]) -> Iterator[Row]:
        """See `Database`."""
        for some in _portions(list(names)):
            yield from self.execute(f"{statement} ({_marks(len(some))})", some)

    def transaction(self, *, writes: bool) -> AbstractContextManager[None]:
        """See `Database`."""
        return _transaction(self, "IMMEDIATE" if writes else "DEFERRED")

    def errors_told(self) -> AbstractContextManager[None]:
        """See `Database`."""
        return _errors_told(self.name)

    def damaged(self, what: object) -> str:
        """See `Database`."""
        return _damaged(self.name, what)

    def bytes_used(self) -> int:
        """See `Database`."""
        pages, free, size = (
            self.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def has_table(self, name: str) -> bool:
        """See `Database`."""
        there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self.execute(there, (name,)).fetchone() is not None

    def rewrite(self) -> None:
        """See `Database`."""
        self.execute("VACUUM")
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@cache
def _insertion(put: InsertStatement, rows: int) -> str:
    count = len(put.columns)
    row = f"({_marks(count - 1)}, packed(?))" if put.packs else f"({_marks(count)})"
    return put.sql(f"VALUES {', '.join([row] * rows)}")


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """All items, divided into lengths of which there are few."""
    at = 0
    for size in _PORTIONS:
        while len(items) - at >= size:
            yield items[at : at + size]
            at += size


@cache
def _marks(count: int) -> str:
    """So many question marks."""
    return ", ".join("?" * count)


def _refuse_strangers(connection: sqlite3.Connection, path: Path | str) -> int:
    """The file's schema version: OPENED_SINCE to SCHEMA_VERSION, or 0 for an empty file. Raises StoreError for any
    other file."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not an experience store: give store.url another path.")
    if version > SCHEMA_VERSION:
        raise StoreError(describe_newer(str(path), version, _read_writer(connection)))
    if 0 < version < OPENED_SINCE:
        advice = (
            f"run it once with Conch 0.1.0 at revision {MIGRATED_BY} (git checkout {MIGRATED_BY} in a clone of "
            "its repository), which migrates it"
        )
        raise StoreError(describe_older(str(path), version, advice))
    return version


def _read_writer(connection: sqlite3.Connection) -> object:
    """The version that the store names as its writer; None where that cannot be read in a layout of the future."""
    with suppress(sqlite3.Error):
        row = connection.execute(WRITER).fetchone()
        return row and row[0]
    return None


def _create(connection: SqliteConnection) -> None:
    """Make the tables in an empty file: all or none, a kill in between leaves the file empty. Twice is once.

    A file of an earlier schema gets what that lacks and the present one's number; its rows stay."""
    with connection.transaction(writes=True):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for table in TABLES:
                connection.execute(table)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        else:
            for schema in range(version + 1, SCHEMA_VERSION + 1):
                for addition in ADDITIONS.get(schema, ()):
                    connection.execute(addition)
        if version < SCHEMA_VERSION:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute(NAME_WRITER, (own_version(),))


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
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
def _errors_told(path: Path | str) -> Iterator[None]:
    """Turns SQLite's errors into one StoreError that says what is wrong, where, and what to do; an interruption stays
    one: `packed` and `unpacked` raise nothing, but a signal may be handled while they run."""
    try:
        yield
    except sqlite3.Error as error:
        if str(error) == _RAISED and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt from error
        raise StoreError(_sentence(error, path)) from error


def _sentence(error: sqlite3.Error, path: Path | str) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"The experience store {path} is being written by another process: stop that one and try again."
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"The experience store {path} cannot be used ({error}): check that it is there and may be written."
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            return _damaged(path, error)
        case sqlite3.SQLITE_IOERR:
            return f"The disk under the experience store {path} failed ({error}): check the disk, then run again."
        case None if str(error).startswith(_UNDECODED):
            return _damaged(path, error)
        case _:
            return f"The experience store {path} cannot be used: {error}."


def _full(path: Path | str) -> str:
    return f"The disk is full, the experience store {path} cannot grow: make room; nothing stored is lost."


def _damaged(path: Path | str, what: object) -> str:
    """The sentence for a store whose content is not what was written."""
    return (
        f"The experience store {path} is damaged ({what}): move it aside and run again, "
        "it is rebuilt from the stream as far back as that is kept."
    )

"""The experience store in a SQLite file."""

from __future__ import annotations

from pathlib import Path

from conch.experience.opened import OpenStore
from conch.experience.sql_store import SqlReader, SqlStore
from conch.experience.sqlite.connection import MEMORY, open_reader, open_writer


class SqliteReader(SqlReader):
    """An `ExperienceReader` over a SQLite file; closed by leaving the context or by `close`."""

    def __init__(self, path: Path | str, *, timeout: float = 5.0) -> None:
        """Opens the store that is there. `timeout`: seconds to wait for a lock. Raises StoreError."""
        super().__init__(OpenStore(open_reader(path, timeout)))


class SqliteStore(SqlStore):
    """An `ExperienceStore` in a SQLite file (WAL, every commit on disk before it returns)."""

    def __init__(self, path: Path | str, *, timeout: float = 5.0) -> None:
        """Opens the store at `path`, making it if there is none. `timeout`: seconds to wait for a lock.

        Raises StoreError where it is damaged, newer, somebody else's, locked or cannot be written; the file is left as
        it is then.
        """
        super().__init__(OpenStore(open_writer(path, timeout)))


class MemoryStore(SqliteStore):
    """An `ExperienceStore` that is gone when it is closed: the same tables in SQLite's memory, for tests, notebooks.

    It cannot be read from another connection.
    """

    def __init__(self) -> None:
        super().__init__(MEMORY)

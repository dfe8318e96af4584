"""The experience store in a PostgreSQL database."""

from __future__ import annotations

from conch.experience.opened import OpenStore
from conch.experience.postgres.opening import open_reader, open_writer
from conch.experience.sql_store import SqlReader, SqlStore


class PostgresReader(SqlReader):
    """An `ExperienceReader` over a PostgreSQL database; closed by leaving the context or by `close`."""

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        """Opens the store that is there. `timeout`: seconds to wait for the server, and for a lock. Raises
        StoreError."""
        super().__init__(OpenStore(open_reader(url, timeout)))


class PostgresStore(SqlStore):
    """An `ExperienceStore` in a PostgreSQL database; every commit is on the server's disk before it returns."""

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        """Opens the store in the database of `url`, making its tables if there are none. `timeout`: seconds to wait
        for the server, and for another writer to end.

        Raises StoreError where the server does not answer or refuses, and where the database is newer, another's or
        written by another process; the database is left as it is then.
        """
        super().__init__(OpenStore(open_writer(url, timeout)))

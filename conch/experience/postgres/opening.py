"""How a store in PostgreSQL is opened: its address, its server, its tables, its one writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from conch.errors import NoStoreError, StoreAwayError, StoreError
from conch.experience.postgres.connection import LOCK, PostgresConnection, sentence
from conch.experience.postgres.schema import APPLICATION, SCHEMA, creation
from conch.experience.postgres.session import Session
from conch.experience.schema import COPIED_BY, NAME_WRITER, SCHEMA_VERSION, describe_newer, describe_older
from conch.version import own_version

OLDEST_SERVER: Final = 15
"""The oldest major version of PostgreSQL that the tests run on."""
_AWAY: Final = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
    asyncpg.TooManyConnectionsError,
)
_SETTINGS: Final = {
    "application_name": "conch",
    "search_path": SCHEMA,
    "jit": "off",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""Of each session. By the last three the server ends it, and lets go of its lock, a minute after the client's machine
is gone."""
_DURABLE: Final = {"synchronous_commit": "on"}
_WATCHED: Final = {"idle_session_timeout": "60s", "idle_in_transaction_session_timeout": "60s"}
"""The server ends the session of a worker that is stopped, or hangs: its agents go to the other workers."""


def shown(url: str) -> str:
    """The address without its password and its options.

    >>> shown("postgresql://me:secret@db:5433/life?sslmode=require")
    'postgresql://me@db:5433/life'
    """
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"


def open_reader(url: str, timeout: float) -> PostgresConnection:
    """The store in the database of `url`, for reading beside a writer. `timeout`: seconds to wait for the server.

    Raises StoreError, NoStoreError where there is none yet.
    """
    with _opened(url, timeout, {"default_transaction_read_only": "on"}) as connection:
        if _version(connection) is None:
            raise NoStoreError(f"There is no experience store at {connection.name} yet: start a run first.")
        return connection


def open_writer(url: str, timeout: float) -> PostgresConnection:
    """The store in the database of `url`, made where there is none, for one writer that has it alone.

    `timeout`: seconds to wait for the server, and for other writers to end. Raises StoreError; a database that is not
    of this schema is left as it is.
    """
    with _opened(url, timeout, _DURABLE) as connection:
        # Held by the session, not by a transaction: the server lets go of it where this process dies.
        connection.execute("SELECT pg_advisory_lock(?)", (LOCK,))
        _make(connection)
        return connection


def open_worker(url: str, timeout: float) -> PostgresConnection:
    """As `open_writer`, for one of several workers, each of which writes of the agents whose partitions it owns. Waits
    for a writer that has the store alone, not for other workers."""
    with _opened(url, timeout, _DURABLE | _WATCHED, shares=True) as connection:
        connection.execute("SELECT pg_advisory_lock_shared(?)", (LOCK,))
        _make(connection)
        return connection


def _make(connection: PostgresConnection) -> None:
    """Make the tables where there are none. Raises StoreError for a database that is not of this schema."""
    if _version(connection) is None:
        with connection.transaction(writes=True):
            if _version(connection) is None:  # another worker may have made them meanwhile
                connection.command(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                for statement in creation():
                    connection.command(statement)
    connection.execute(NAME_WRITER, (own_version(),))


@contextmanager
def _opened(
    url: str, timeout: float, settings: dict[str, str], *, shares: bool = False
) -> Iterator[PostgresConnection]:
    """A session at the server of `url`, which is closed where opening the store raises. Raises StoreError."""
    own = _SETTINGS | {"lock_timeout": f"{timeout:g}s"}
    try:
        session = Session(url, timeout, own | settings)
    except _AWAY as error:
        raise StoreAwayError(sentence(error, shown(url))) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreError(sentence(error, shown(url))) from error
    connection = PostgresConnection(session, shown(url), shares=shares)
    try:
        with connection.errors_told():
            _refuse_server(connection)
            yield connection
    except BaseException:
        session.close()
        raise


def _refuse_server(connection: PostgresConnection) -> None:
    major = int(connection.execute("SHOW server_version_num").fetchone()[0]) // 10_000
    if major < OLDEST_SERVER:
        raise StoreError(
            f"The server of the experience store {connection.name} is PostgreSQL {major}: use {OLDEST_SERVER} or newer."
        )
    encoding = connection.execute("SHOW server_encoding").fetchone()[0]
    if encoding != "UTF8":
        raise StoreError(
            f"The database of the experience store {connection.name} is encoded in {encoding}: make one with "
            "createdb --encoding UTF8 --template template0."
        )


def _version(connection: PostgresConnection) -> int | None:
    """The schema version of the store; None where there is no store. Raises StoreError for any other content."""
    tables = "SELECT count(*), to_regclass(?) IS NOT NULL FROM pg_tables WHERE schemaname = ?"
    count, has_meta = connection.execute(tables, (f"{SCHEMA}.meta", SCHEMA)).fetchone()
    if not count:
        return None
    meta = dict(connection.execute("SELECT name, value FROM meta").fetchall()) if has_meta else {}
    if meta.get("application") != APPLICATION:
        raise StoreError(
            f"{connection.name} has a schema {SCHEMA!r} that is no experience store: give store.url another database."
        )
    version = int(meta["schema"])
    if version > SCHEMA_VERSION:
        raise StoreError(describe_newer(connection.name, version, meta.get("conch")))
    if version < SCHEMA_VERSION:
        advice = (
            f"copy it into a file with Conch 0.1.0 at revision {COPIED_BY} (git checkout {COPIED_BY} in a clone of its "
            "repository, then conch data import), which this one opens"
        )
        raise StoreError(describe_older(connection.name, version, advice))
    return version

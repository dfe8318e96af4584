"""Where the experiences of a home are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from conch.errors import ConfigError, NoStoreError

if TYPE_CHECKING:
    from conch.experience.opened import OpenStore
    from conch.experience.sql_store import SqlReader, SqlStore

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class StoreLocation:
    """A SQLite file or a PostgreSQL database; as text, its path or its address without a password."""

    file: Path | None
    """None: a database."""
    url: str = field(default="", repr=False)
    """The address of the database, with its password."""

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        from conch.experience.postgres.opening import shown

        return shown(self.url)

    def exists(self) -> bool:
        """Whether there is a store. Asks the server where it is a database: raises StoreError where that does not
        answer."""
        if self.file is not None:
            return self.file.exists()
        try:
            self.reader().close()
        except NoStoreError:
            return False
        return True

    def reader(self, timeout: float = 5.0) -> SqlReader:
        """The store, for reading beside a writer. `timeout`: seconds to wait for a lock, and for the server. Raises
        StoreError, NoStoreError where there is none yet."""
        if self.file is not None:
            from conch.experience.sqlite import SqliteReader

            return SqliteReader(self.file, timeout=timeout)
        from conch.experience.postgres import PostgresReader

        return PostgresReader(self.url, timeout=timeout)

    def writer(self, timeout: float = 5.0) -> SqlStore:
        """The store, made where there is none, for a writer that has it alone. `timeout`: as in `reader`. Raises
        StoreError."""
        if self.file is not None:
            from conch.experience.sqlite import SqliteStore

            return SqliteStore(self.file, timeout=timeout)
        from conch.experience.postgres import PostgresStore

        return PostgresStore(self.url, timeout=timeout)

    @property
    def is_shared(self) -> bool:
        """Whether several workers can share its agents: of a database. A file has one writer."""
        return self.file is None

    def worker(self, timeout: float = 5.0) -> SqlStore:
        """The store, made where there is none, for one of the workers that share it, which owns no agents until it asks
        for them (`ExperienceWriter.own`); of a file as `writer`. Raises StoreError."""
        if self.file is not None:
            return self.writer(timeout)
        from conch.experience.postgres import SharedPostgresStore

        return SharedPostgresStore(self.url, timeout=timeout)

    def opened(self, timeout: float = 5.0, *, writes: bool) -> OpenStore:
        """Its rows alone, opened as by `writer`, or as by `reader`: for a copy. Raises StoreError."""
        from conch.experience.opened import OpenStore

        if self.file is not None:
            from conch.experience.sqlite import connection

            return OpenStore((connection.open_writer if writes else connection.open_reader)(self.file, timeout))
        from conch.experience.postgres import opening

        return OpenStore((opening.open_writer if writes else opening.open_reader)(self.url, timeout))


def store_location(url: str | None, home: Path) -> StoreLocation:
    """What `store.url` names: a file by `sqlite:///relative/to/the/home` or `sqlite:////absolute`, a database by
    `postgresql://user:password@host:port/database`; None: `store.db` in the home. Raises ConfigError for any other
    address, and for a database where the extra `postgres` is not installed."""
    if url is None:
        return StoreLocation(home / "store.db")
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return StoreLocation(home / url.removeprefix(_SQLITE))
    if not url.startswith(_POSTGRES):
        scheme = url.partition("://")[0][:20]
        raise ConfigError(
            f"store.url begins with {scheme!r}: a file is named by sqlite:///path, a database by "
            "postgresql://user:password@host/database"
        )
    _refuse_broken(url)
    return StoreLocation(None, url)


def _refuse_broken(url: str) -> None:
    """Raises ConfigError, without a word of the address: it may hold a password."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.path.strip("/")) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ConfigError(
            "store.url is no address of a database: write postgresql://user:password@host:port/database, with %40 for "
            "an @ in the password and %2F for a /"
        )
    if find_spec("asyncpg") is None:
        raise ConfigError("store.url names a PostgreSQL database: install Conch with its extra, conch-agent[postgres]")

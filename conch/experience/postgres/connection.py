"""The `Database` of a PostgreSQL server: statements, transactions, and what is said when it cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

import asyncpg

from conch.bus import PARTITIONS
from conch.experience.opened import FetchedRows
from conch.experience.postgres.dialect import distinct, insertion, translated
from conch.experience.postgres.schema import PARTITIONED, SCHEMA, partition
from conch.experience.postgres.session import Session
from conch.experience.write_batch import InsertStatement, Row

LOCK: Final = 0x434E4358
"""The advisory locks of a store, `CNCX` as in the header of a SQLite file; the database's other locks are its users'
own. Under this number alone: one writer has the store (exclusive), or workers share it. Beside a second number: a
partition of the agents is owned, or, with the one behind the last partition, a worker's transaction runs."""
PARTITION_ACTS: Final = 2**18
"""Numbers of acts to a partition: about 1 GB of rows."""

_COLUMNS: Final = """
    SELECT c.relname, a.attname, format_type(a.atttypid, NULL) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped"""
_COVERED: Final = "SELECT coalesce(max(upto), 1) FROM partitions"
# What was deleted stays in a partition's files until the partition goes: acts are counted instead. The other tables use
# their room again, and are as large as the most acts that there were at one time.
_USED: Final = """
    SELECT (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r')::float8
        * (SELECT 1.0 - coalesce(sum(removed), 0)::float8
                / greatest(1, coalesce(sum(least(upto, numbered.acts + 1) - first), 0))
           FROM partitions, (SELECT coalesce(max(act), 0) AS acts FROM acts) AS numbered)"""
_UNLOCK: Final = "SELECT pg_advisory_unlock($1, number) FROM unnest($2::int[]) AS number"
_LOCK: Final = "SELECT number FROM unnest($2::int[]) AS number WHERE pg_try_advisory_lock($1, number)"
_LOCKED: Final = """
    SELECT objid::int FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::int::oid AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_TURN: Final = f"SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({LOCK}, {PARTITIONS})"
"""A worker's transaction begins when no other worker's runs."""
# Retention removes an action with its act: a number without one is of no fact that may still come.
_UNUSED: Final = """
    SELECT first FROM partitions p WHERE upto <= (SELECT value::bigint + 1 FROM meta WHERE name = 'numbered')
    AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.act >= p.first AND a.act < p.upto)"""


class _Fetched:
    """The rows of a statement, read once."""

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self.rowcount = rowcount
        self._rows = iter(rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows


class PostgresConnection:
    """A session with the statements and the transactions of a store."""

    def __init__(self, session: Session, name: str, *, shares: bool = False) -> None:
        """`name`: the address without its password. `shares`: whether other sessions may write, too."""
        self.name, self._session, self._shares = name, session, shares
        self._owned: frozenset[int] = frozenset()
        self._types: dict[str, dict[str, str]] = {}
        self._covered: int | None = None
        """Acts below this number have a partition; None: not known."""

    def command(self, sql: str) -> None:
        """Execute a statement of PostgreSQL's own, without values and without rows."""
        self._session.command(sql)

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, object] = (), /) -> FetchedRows:
        """See `Database`."""
        statement = translated(sql)
        given = statement.values(values)
        for place in statement.packed:
            given[place] = self._session.pack(given[place])
        return _Fetched(*self._session.execute(statement.sql, given, unpacks=statement.unpacks))

    def executemany(self, sql: str, values: Iterable[Sequence[Any]], /) -> object:
        """See `Database`."""
        rows = list(values)
        if rows:
            self._session.executemany(translated(sql).sql, rows)
        return None

    def insert(self, put: InsertStatement, rows: Sequence[Row]) -> int:
        """See `Database`. All rows are one statement."""
        if not rows:
            return 0
        if put.table == "actions":
            self._cover(max(row[1] for row in rows))
        columns = list(map(list, zip(*distinct(put, rows), strict=True)))
        if put.packs:
            columns[-1] = [self._session.pack(body) for body in columns[-1]]
        types = self._types_of(put.table)
        sql = insertion(put, tuple(types[column] for column in put.columns))
        return self._session.execute(sql, columns).rowcount

    def among(self, statement: str, names: Iterable[str | int]) -> Iterator[Row]:
        """See `Database`. All names are one statement."""
        if some := list(names):
            asked = translated(statement)
            sql = f"{asked.sql.rstrip().removesuffix('IN')}= ANY($1)"
            yield from self._session.execute(sql, [some], unpacks=asked.unpacks).rows

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator[None]:
        """See `Database`."""
        begin = "BEGIN" if writes else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        try:
            self._session.command(f"{begin}; {_TURN}" if writes and self._shares else begin)
            yield
            self._session.command("COMMIT")
        except BaseException:
            self._covered = None
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                self._session.command("ROLLBACK")
            raise

    @contextmanager
    def errors_told(self) -> Iterator[None]:
        """See `Database`."""
        try:
            yield
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise self._session.error(sentence(error, self.name)) from error

    def damaged(self, what: object) -> str:
        """See `Database`."""
        return _damaged(self.name, what)

    def bytes_used(self) -> int:
        """See `Database`. An estimate: what is left of each partition is taken to be as large as what was removed."""
        return int(self._session.execute(_USED, [SCHEMA]).rows[0][0])

    def has_table(self, name: str) -> bool:
        """See `Database`. No other schema than the present one is opened, which has every table."""
        return True

    def rewrite(self) -> None:
        """See `Database`. The server's log and its own backups are not reached."""
        tables = self._session.execute("SELECT tablename FROM pg_tables WHERE schemaname = $1", [SCHEMA]).rows
        for (name,) in tables:
            self.command(f"VACUUM FULL {SCHEMA}.{name}")

    def own(self, partitions: Collection[int]) -> frozenset[int]:
        """Own those of these partitions of the agents that no other session owns, and let go of all others; returns
        those that are owned now. The server lets go of them where the session ends."""
        left, missing = sorted(self._owned.difference(partitions)), sorted(set(partitions) - self._owned)
        self._session.execute(_UNLOCK, [LOCK, left])
        got = {number for (number,) in self._session.execute(_LOCK, [LOCK, missing]).rows}
        self._owned = self._owned.intersection(partitions) | got
        return self._owned

    def owned_by_any(self) -> frozenset[int]:
        """The partitions that any session owns now."""
        return frozenset(number for (number,) in self._session.execute(_LOCKED, [LOCK]).rows)

    def close(self) -> None:
        """See `Database`."""
        self._session.close()

    def _types_of(self, table: str) -> dict[str, str]:
        if not self._types:
            for name, column, kind in self._session.execute(_COLUMNS, [SCHEMA]).rows:
                self._types.setdefault(name, {})[column] = kind
        return self._types[table]

    def _cover(self, number: int) -> None:
        """Have a partition for acts up to this number, within the caller's transaction."""
        if self._covered is None or number >= self._covered:  # another worker may have made one
            self._covered = int(self._session.execute(_COVERED, []).rows[0][0])
        while number >= self._covered:
            first, self._covered = self._covered, self._covered + PARTITION_ACTS
            for table in PARTITIONED:
                for statement in partition(table, first, self._covered):
                    self._session.command(statement)
            self._session.execute("INSERT INTO partitions (first, upto) VALUES ($1, $2)", [first, self._covered])
            self._drop_unused()

    def _drop_unused(self) -> None:
        """Drop the partitions of which every act was removed; those that a reader uses stay for a next time."""
        for (first,) in self._session.execute(_UNUSED, []).rows:
            self._session.command("SAVEPOINT dropping; SET LOCAL lock_timeout = '50ms'")
            try:
                for table in PARTITIONED:
                    self._session.command(f"DROP TABLE {table}_from_{first}")
                self._session.execute("DELETE FROM partitions WHERE first = $1", [first])
                self._session.command("RELEASE dropping")
            except asyncpg.LockNotAvailableError:
                self._session.command("ROLLBACK TO dropping")


def sentence(error: BaseException, name: str) -> str:
    """What is wrong with the store of this name, and what to do."""
    for kinds, words in _sentences().items():
        if isinstance(error, kinds):
            return words.format(name=name, error=_told(error))
    return f"The experience store {name} cannot be used: {_told(error)}."


@cache
def _sentences() -> Mapping[tuple[type[BaseException], ...], str]:
    """By what was raised; the first that fits."""
    refused = (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)
    away = (
        *(asyncpg.CannotConnectNowError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, OSError),
        *(asyncpg.PostgresConnectionError, asyncpg.ConnectionDoesNotExistError, asyncpg.TooManyConnectionsError),
    )
    damaged = (
        *(asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedFunctionError),
        *(asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError, asyncpg.InternalServerError),
    )
    return {
        refused: "The server of the experience store {name} refuses the user ({error}): correct the user and the "
        "password in store.url.",
        (asyncpg.InvalidCatalogNameError,): "The server of the experience store {name} has no such database: make it "
        "with createdb, or correct store.url.",
        (asyncpg.LockNotAvailableError,): "The experience store {name} is being written by another process: stop that "
        "one and try again.",
        (asyncpg.DiskFullError,): "The disk of the server is full, the experience store {name} cannot grow: make room; "
        "nothing stored is lost.",
        (asyncpg.InsufficientPrivilegeError,): "The user of the experience store {name} may not do that ({error}): "
        "grant it CREATE on the database.",
        (asyncpg.ReadOnlySQLTransactionError,): "The server of the experience store {name} takes no writes ({error}): "
        "name the primary server in store.url.",
        away: "The server of the experience store {name} does not answer ({error}): start it, or correct store.url; "
        "nothing stored is lost.",
        damaged: _damaged("{name}", "{error}"),
        # The session broke off before this statement, or was closed by this side.
        (asyncpg.InterfaceError,): "The experience store {name} is no longer connected ({error}): look whether the "
        "server runs, and open it again; nothing stored is lost.",
    }


def _told(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _damaged(name: str, what: object) -> str:
    return (
        f"The experience store {name} is damaged ({what}): name another database in store.url and run again, "
        "it is rebuilt from the stream as far back as that is kept."
    )

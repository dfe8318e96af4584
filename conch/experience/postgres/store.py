"""The experience store in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection

from conch.experience.opened import POSITIONS, OpenStore
from conch.experience.postgres.opening import open_reader, open_worker, open_writer
from conch.experience.prune import Pruner
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
        if self._file.meta(POSITIONS) is not None:  # of workers that are gone; what is applied twice is known
            with self._file.writing():
                self._file.db.execute("DELETE FROM meta WHERE name = ?", (POSITIONS,))


class SharedPostgresStore(SqlStore):
    """An `ExperienceStore` in a PostgreSQL database, for one of the workers that share its agents: it owns none until
    `own`. Its transactions wait for those of the other workers, so that the numbers of rows and of changes rise in the
    order of the commits."""

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        """Opens the store in the database of `url`, as `PostgresStore` does; it is refused while one of those has it.
        Raises StoreError."""
        self._connection = open_worker(url, timeout)
        super().__init__(OpenStore(self._connection), shares=True)

    def own(self, partitions: Collection[int]) -> frozenset[int]:
        with self._file.reading():
            owned = self._connection.own(partitions)
        self._look(owned)  # only now: the former owner has committed what it will ever commit
        self._join.known.forget()
        self._pruner = Pruner(self._file, self._owned)
        return owned

    def is_free(self, partitions: Collection[int]) -> bool:
        with self._file.reading():
            return not self._connection.owned_by_any().issuperset(partitions)

    def set_position(self, seq: int) -> None:
        super().set_position(seq)
        self._look(self._owned.numbers)

    def _look(self, owned: Collection[int]) -> None:
        positions = self._file.positions()
        self._owned.floors = {number: positions[number] for number in owned}

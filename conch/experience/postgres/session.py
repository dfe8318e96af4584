"""One session at a PostgreSQL server, for callers without an event loop.

asyncpg needs a loop. A store's callers are threads, some of which run a loop themselves: so all sessions of a process
live on one loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from conch.errors import StoreAwayError, StoreError
from conch.experience.packing import new_packing
from conch.experience.postgres.dialect import from_text, to_column

T = TypeVar("T")

_STATEMENTS: Final = 200
"""Prepared statements of a session; a list's filters alone make a thousand."""
_GOODBYE_SECONDS: Final = 2.0
"""Time for the server to answer at the end of a session."""


class Answer(NamedTuple):
    """What a statement gave."""

    rows: list[tuple[Any, ...]]
    rowcount: int
    """Rows that it inserted, changed, deleted or gave."""


class _Prepared(NamedTuple):
    """A prepared statement, with how its values and its rows are converted."""

    statement: asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]
    parameters: tuple[Callable[[Any], Any], ...]
    columns: tuple[Callable[[Any], Any], ...]

    def given(self, values: Sequence[Any]) -> list[Any]:
        """The values as the statement takes them."""
        return [convert(value) for convert, value in zip(self.parameters, values, strict=True)]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop of this process's sessions, running."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="conch.postgres", daemon=True).start()
    return loop


def _run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work` on that loop. Interrupted, it cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


os.register_at_fork(after_in_child=_loop.cache_clear)  # a forked process has the loop, and no thread that runs it


class Session:
    """Executes one statement at a time. Raises what asyncpg raises."""

    def __init__(self, url: str, timeout: float, settings: dict[str, str]) -> None:
        """`timeout`: seconds to wait for the server. `settings`: of the session, by the server's names."""
        self._prepared: dict[str, _Prepared] = {}
        packing = new_packing()
        self.pack, self._unpack = packing.packed, packing.unpacked
        self._connection = _run(asyncpg.connect(url, timeout=timeout, server_settings=settings, statement_cache_size=0))

    def error(self, message: str) -> StoreError:
        """The error to raise: StoreAwayError where the session has broken off."""
        return StoreAwayError(message) if self._connection.is_closed() else StoreError(message)

    def command(self, sql: str) -> None:
        """Execute a statement without values and without rows, or several."""
        _run(self._connection.execute(sql))

    def execute(self, sql: str, values: Sequence[Any], *, unpacks: bool = False) -> Answer:
        """Execute a statement with these values. `unpacks`: whether the bytes that it gives are packed bodies, to be
        read."""
        answer = _run(self._execute(sql, values))
        if not unpacks:
            return answer
        rows = [tuple(self._unpack(one) if type(one) is bytes else one for one in row) for row in answer.rows]
        return Answer(rows, answer.rowcount)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement with each of these rows of values."""
        _run(self._executemany(sql, rows))

    def close(self) -> None:
        """End the session; where the server does not answer, without its goodbye."""
        if not self._connection.is_closed():
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                _run(self._connection.close(timeout=_GOODBYE_SECONDS))
        self._prepared.clear()

    async def _execute(self, sql: str, values: Sequence[Any]) -> Answer:
        prepared = await self._statement(sql)
        records = await prepared.statement.fetch(*prepared.given(values))
        columns = prepared.columns
        rows = [tuple(convert(value) for convert, value in zip(columns, one, strict=True)) for one in records]
        *_, count = prepared.statement.get_statusmsg().split()
        return Answer(rows, int(count) if count.isdigit() else 0)

    async def _executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        prepared = await self._statement(sql)
        await prepared.statement.executemany([prepared.given(row) for row in rows])

    async def _statement(self, sql: str) -> _Prepared:
        found = self._prepared.get(sql)
        if found is None:
            statement = await self._connection.prepare(sql)
            parameters = tuple(_taken(one) for one in statement.get_parameters())
            columns = tuple(from_text if one.type.name == "text" else _same for one in statement.get_attributes())
            found = _Prepared(statement, parameters, columns)
            if len(self._prepared) >= _STATEMENTS:
                self._prepared.clear()
            self._prepared[sql] = found
        return found


def _same(value: Any) -> Any:
    return value


def _taken(kind: asyncpg.Type) -> Callable[[Any], Any]:
    """How a value becomes one of this type, an array's values each by itself."""
    if kind.kind != "array":
        return to_column(kind.name)
    one = to_column(kind.name.removesuffix("[]"))
    return lambda values: [one(value) for value in values]

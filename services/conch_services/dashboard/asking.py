"""Queries of the pages to store and bus: an answer, or the reason why there is none; cached for a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request

from conch.errors import CheckError, ConchError, NoStoreError, StoreError
from conch.tasks import OwnedTasks
from conch.text import safe_text

T = TypeVar("T")

MOST_KEPT = 64
"""Answers that are kept of one question, the oldest forgotten first."""


class QueryResult(NamedTuple, Generic[T]):
    """The answer to a query, or why there is none: no run, no store yet, a store that is locked."""

    found: T | None
    why: str = ""
    """A sentence; empty where there is an answer."""
    broken: bool = False
    """There is a history, and it cannot be read: damaged, locked, of a newer Conch."""


async def asked(answer: Awaitable[T]) -> QueryResult[T]:
    """The answer, with what it raises as a sentence. Cancelled: so is the asking."""
    try:
        return QueryResult(await answer)
    except ConchError as error:
        broken = isinstance(error, StoreError | CheckError) and not isinstance(error, NoStoreError)
        return QueryResult(None, safe_text(str(error), one_line=True), broken)


class AnswerCache(Generic[T]):
    """Answers by their key, each computed once for all requests within `seconds` of when it was begun.

    Failures are not cached. A request that is cancelled while the answer is computed leaves it to the others.
    """

    def __init__(self, seconds: float, tasks: OwnedTasks) -> None:
        """`tasks`: the owner of what makes the answers."""
        self._seconds, self._tasks = seconds, tasks
        self._made: dict[Hashable, tuple[float, asyncio.Task[T]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to `key`, made by `make` where none is kept. Raises what that raises."""
        return await asyncio.shield(self.begin(key, make))

    def begin(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Have it made where none is kept, without waiting."""
        begun, task = self._made.get(key, (0.0, None))
        if task is None or (task.done() and (time.monotonic() - begun > self._seconds or _failed(task))):
            task = self._tasks.start(make(), name="conch.dashboard.asked")
            self._made.pop(key, None)
            self._made[key] = (time.monotonic(), task)
            while len(self._made) > MOST_KEPT:
                del self._made[next(iter(self._made))]
        return task


def kept(request: Request, name: str, seconds: float) -> AnswerCache[Any]:
    """The answers of this name that the dashboard keeps."""
    there: dict[str, AnswerCache[Any]] | None = getattr(request.app.state, "kept", None)
    if there is None:
        there = request.app.state.kept = {}
    return there.setdefault(name, AnswerCache(seconds, request.app.state.world.tasks))


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def after(request: Request, position: int) -> int:
    """The stream sequence from which a page drawn from a store at `position` continues live.

    Not beyond what the hub has seen: a store may know a stream that was replaced since.
    """
    return int(min(position, request.app.state.world.hub.last))


def number_of(request: Request, name: str) -> int:
    """The number in this part of the query; 0 where there is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0

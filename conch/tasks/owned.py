"""Tasks that end with their owner.

`asyncio.TaskGroup` is used where the failure of one task is to end all others. It was looked at for the rest: it raises
an ExceptionGroup also for a single error, it cannot be left while a task of it goes on, and on Python 3.11 a task that
fails while the group is cancelled replaces the cancellation by its error, so that the caller goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

T = TypeVar("T")


class OwnedTasks:
    """The tasks that one owner starts. Left as a context, or closed, all of them have ended.

    A task that fails changes nothing for the owner and for the other tasks: its error is raised where it is awaited.
    asyncio logs the error of a task that failed by itself and was never awaited.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def running(self) -> frozenset[asyncio.Task[Any]]:
        """The tasks that have not ended."""
        return frozenset(self._running)

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run `work` in a task of this name. Raises RuntimeError once the owner has closed its tasks."""
        if self._closed:
            work.close()
            raise RuntimeError(f"the task {name} was started by an owner that has ended")
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Cancel the tasks that are running, without waiting for their end. Further tasks may be started."""
        for task in self._running:
            task.cancel()

    async def close(self) -> None:
        """Cancel the tasks and wait until they have ended; see `cancel_and_wait`. A second call does nothing."""
        self._closed = True
        await cancel_and_wait(*self._running)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@asynccontextmanager
async def background(work: Coroutine[Any, Any, T], *, name: str) -> AsyncIterator[asyncio.Task[T]]:
    """Run `work` in a task of this name while entered; left, it is cancelled and has ended; see `cancel_and_wait`.

    An end or a failure of the task does not interrupt the body: a body that depends on it waits for the task.
    """
    async with OwnedTasks() as tasks:
        yield tasks.start(work, name=name)


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks that are running and return when they have ended. The calling task is not among them.

    What a task raises because it is cancelled is dropped; the error of one that had failed before stays to be awaited.
    Cancelled meanwhile, it still waits until they have ended, and raises CancelledError then.
    """
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    try:
        await _all_ended(running)
    finally:
        for task in running:
            mark_seen(task)


async def uninterrupted(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """The result of `work`, which runs to its end in a task of this name even where the caller is cancelled.

    Raises what `work` raises. Cancelled, however often, it waits for the end of `work` and raises CancelledError then;
    the result or the error is dropped.
    """
    task = asyncio.create_task(work, name=name)
    try:
        await _all_ended([task])
    finally:
        mark_seen(task)
    return task.result()


async def _all_ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Return when all have ended. Cancelled meanwhile, it raises CancelledError after that."""
    is_cancelled = False
    while running := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError


def mark_seen(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from logging that the task's error was never awaited."""
    if task.done() and not task.cancelled():
        task.exception()

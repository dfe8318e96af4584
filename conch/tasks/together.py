"""Coroutines that run at the same time: a call for each of many items, and a race that the first one to end wins.

`asyncio.gather` was looked at: where one call fails, it leaves the others running, without an owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from conch.tasks.owned import OwnedTasks, mark_seen

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 64
"""Most calls of `concurrently` at the same time: enough to hide the round trip to a server, and no flood for it."""


async def concurrently(
    call: Callable[[S], Coroutine[Any, Any, T]], items: Iterable[S], *, at_once: int = AT_ONCE
) -> list[T]:
    """The result of `call` for each item, in the order of the items; at most `at_once` calls (1 or more) run at the
    same time, and they begin in that order.

    Raises the first error of a call; no further call begins, and those that run are cancelled and have ended by then.
    Cancelled: the same, and CancelledError is raised whatever the calls raise.
    """
    listed = list(items)
    left, results = iter(enumerate(listed)), dict[int, T]()
    errors: list[BaseException] = []
    over = asyncio.Event()

    async def work() -> None:
        try:
            for number, item in left:
                results[number] = await call(item)
                if len(results) == len(listed):
                    over.set()
        except (Exception, asyncio.CancelledError) as error:
            errors.append(error)
            over.set()

    async with OwnedTasks() as tasks:
        for number in range(min(at_once, len(listed))):
            tasks.start(work(), name=f"{_own_name()}.{number}")
        if listed:
            await over.wait()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(listed))]


async def race(contenders: Mapping[str, Coroutine[Any, Any, T]]) -> T:
    """The result of the first contender that ends; the others are cancelled and have ended when this returns.

    `contenders`: one or more coroutines, each under the name of its task. Of several that have ended when the calling
    task runs again a failed one counts, else the foremost. What is raised while contenders are cancelled is dropped.

    Raises the error of the contender that counts. Cancelled, all contenders are cancelled and have ended when it raises
    CancelledError; a result that came at the same time is dropped.
    """
    async with OwnedTasks() as tasks:
        running = [tasks.start(work, name=name) for name, work in contenders.items()]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = [task for task in running if task.done()]
            for task in ended:
                mark_seen(task)
        failed = [task for task in ended if task.cancelled() or task.exception() is not None]
        return (failed or ended)[0].result()


def _own_name() -> str:
    """The name of the calling task."""
    task = asyncio.current_task()
    return task.get_name() if task is not None else ""

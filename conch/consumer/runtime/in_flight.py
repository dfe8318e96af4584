"""Batches that are handled and not yet published."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from conch.bus import OutgoingMessage
from conch.consumer.runtime.context import RuntimeContext


@dataclass(eq=False)
class InFlightBatch:
    """A batch that is handled: what followed from it is being published. Or an event that is in hand beside others."""

    first: int
    ids: list[str]
    """Of the events that were handled."""
    messages: list[OutgoingMessage]


class InFlightBatches:
    """Publishes batches while the next are handled. The position stays before the first of them."""

    def __init__(self, context: RuntimeContext) -> None:
        self._context = context
        self._tasks: dict[InFlightBatch, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def clear(self) -> None:
        """Discard what a run before this one held."""
        self._tasks.clear()

    def firsts(self) -> list[int]:
        """The sequence of each batch's first event."""
        return [in_flight.first for in_flight in self._tasks]

    def tasks(self) -> Collection[asyncio.Task[None]]:
        """One for each batch."""
        return self._tasks.values()

    def add(self, in_flight: InFlightBatch, task: asyncio.Task[None]) -> None:
        """Count `in_flight` until `remove`; `task` is to remove it."""
        self._tasks[in_flight] = task

    def remove(self, in_flight: InFlightBatch) -> None:
        """It is published."""
        del self._tasks[in_flight]
        self._context.room.set()

    def publish(self, in_flight: InFlightBatch) -> None:
        """Publish what followed from a batch, behind the batches before it, and do not wait for it."""
        if in_flight.messages:
            self.add(in_flight, self._context.start("publish", self._publish(in_flight)))
        else:
            self._remember(in_flight)

    async def _publish(self, in_flight: InFlightBatch) -> None:
        await self._context.ownership.ensure()
        await self._context.output.publish(in_flight.messages)
        self._remember(in_flight)
        self.remove(in_flight)

    def _remember(self, in_flight: InFlightBatch) -> None:
        for id in in_flight.ids:
            self._context.position.remember(id)
        self._context.hot.difference_update(in_flight.ids)

    async def landed(self) -> bool:
        """Wait until what is handled as of now is published; whether it all was."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks)
        return not any(task.cancelled() or task.exception() for task in tasks)

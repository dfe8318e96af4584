"""A service that runs on a bus within a test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from conch.bus import Bus, SharedSubscription, shared_subscription


class Hosted(Protocol):
    """A service that says when it has begun."""

    started: asyncio.Event

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Until it is told to stop."""


Some = TypeVar("Some", bound=Hosted)


@asynccontextmanager
async def hosted(service: Some, bus: Bus) -> AsyncIterator[Some]:
    """It runs on the bus while entered, and has begun; left, it is told to stop, and has stopped.

    Raises TimeoutError when it takes longer than 30 s to begin or to stop; what it raises itself comes in a group.
    """
    stop = asyncio.Event()
    async with shared_subscription(bus) as shared_events, asyncio.TaskGroup() as group:
        task = group.create_task(service.run(shared_events, stop))
        async with asyncio.timeout(30):
            await service.started.wait()
        yield service
        stop.set()
        async with asyncio.timeout(30):
            await task

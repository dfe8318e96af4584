"""How a service reads that shows facts to the outside: each once, and after the consumers beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from conch.bus import ReceivedEvent, StreamSubscription
from conch.consumer.runtime.output import ConsumerCounts
from conch_schemas import ContractViolationError, Event

RECENT = 4096
"""Events remembered, to tell a repetition."""
BATCH = 64
"""Events taken at a time."""
REST_SECONDS = 0.05
"""Between two batches: what is shown is that much late, and acts are scored the sooner for it."""


class FirstSightFilter:
    """Tells an event that is met for the first time from one that was met lately; counts what it tells."""

    def __init__(self, tally: ConsumerCounts) -> None:
        self._tally = tally
        self._recent: dict[int, None] = {}

    def take(self, arrived: ReceivedEvent) -> Event | None:
        """The event, the first time. None for a repetition, and for what is none or stands on another's subject: of
        that the consumers make dead letters."""
        try:
            event = arrived.event
        except ContractViolationError:
            return None
        key = hash(event.id)  # an id may be as long as an event
        if key in self._recent:
            self._tally.duplicates += 1
            return None
        self._recent[key] = None
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        self._tally.handled += 1
        return event


async def keep_taking(subscription: StreamSubscription, take: Callable[[ReceivedEvent], None]) -> None:
    """Hand on what comes, for ever. The consumers beside it have the loop first, unless there is more than it can hold
    back."""
    while True:
        arrived = await subscription.get(BATCH)
        for one in arrived:
            take(one)
        await asyncio.sleep(REST_SECONDS if len(arrived) < BATCH else 0)

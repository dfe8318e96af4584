"""Reading for exporters (metrics, traces, MQTT): each event once, and after the other consumers of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from conch.bus import ReceivedEvent, StreamSubscription
from conch.consumer.runtime.output import ConsumerCounts
from conch_schemas import ContractViolationError, Event

RECENT = 4096
"""Event ids that are remembered, to detect duplicates."""
BATCH = 64
"""Events taken at a time."""
REST_SECONDS = 0.05
"""Seconds between two batches: exported figures are this much late, and acts are scored sooner for it."""


class FirstSightFilter:
    """Passes each event the first time it arrives, drops repetitions, and counts both."""

    def __init__(self, tally: ConsumerCounts) -> None:
        self._tally = tally
        self._recent: dict[int, None] = {}

    def take(self, arrived: ReceivedEvent) -> Event | None:
        """The event, the first time it arrives. None for a repetition, and for a message that is no event or has
        another event's subject: consumers write dead letters of those."""
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
    """Pass on what comes; never returns. Other consumers get the event loop first, unless more arrives than the
    subscription can hold back."""
    while True:
        arrived = await subscription.get(BATCH)
        for one in arrived:
            take(one)
        await asyncio.sleep(REST_SECONDS if len(arrived) < BATCH else 0)

"""Retention: finds the sequence before which the stream may be trimmed, by age in days or size in GiB."""

from __future__ import annotations

import time
from contextlib import aclosing

from conch.bus.protocol import Bus, StreamState

_DAY = 86_400.0
_GIB = 2**30


async def older_than(bus: Bus, stream: StreamState, *, days: float, now: float | None = None) -> int:
    """The first event that is not older than `days`: earlier ones are. One past the last when all are older.

    `now`: seconds since the epoch.
    """
    oldest = (now if now is not None else time.time()) - days * _DAY
    low, high = stream.first, stream.last + 1
    while low < high:
        middle = (low + high) // 2
        found = await _at_or_behind(bus, middle)
        if found is None or found[0] >= high:
            high = middle  # all from here on are missing
        elif found[1] < oldest:
            low = found[0] + 1
        else:
            high = middle
    return low


def beyond(stream: StreamState, *, gib: float) -> int:
    """The first event from which the rest of the stream fits into `gib`, taking all events as equally large."""
    room = gib * _GIB
    if stream.bytes <= room:
        return stream.first
    share = 1 - room / stream.bytes
    return stream.first + int((stream.last - stream.first + 1) * share) + 1


async def _at_or_behind(bus: Bus, seq: int) -> tuple[int, float] | None:
    """Sequence and time of the event at `seq`, or of the next one where that is missing."""
    if (event := await bus.at(seq)) is not None:
        return event.seq, event.time
    async with aclosing(bus.read(["conch.v1.>"], after=seq)) as events:  # type: ignore[type-var]
        async for event in events:
            return event.seq, event.time
    return None

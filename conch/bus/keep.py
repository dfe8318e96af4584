"""Retention: what everybody has read is trimmed after a while; nothing that one of ours has not read ever is."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import aclosing

import structlog

from conch.bus.protocol import Bus, ReaderState, StreamState

log = structlog.get_logger(__name__)

OUTWARD = frozenset({"mqtt"})
"""Consumers that wait for somebody outside, who may be away for good: what they have not read is kept however old it
is, but not beyond the room that there is for what is read. They go on behind it, and say what they missed."""
_DAY = 86_400.0
_GIB = 2**30


async def keep(bus: Bus, *, days: float, gib: float, floor: int, now: float | None = None) -> int:
    """Trim once: the events that are older than `days` or beyond `gib` of the newest, as far as every durable reader
    has acknowledged and the store has joined (`floor`, a sequence) them. The number trimmed.

    Those beyond `gib` go though one of OUTWARD has not read them.

    Without a durable reader nothing is trimmed: nobody can say what is read. `now`: seconds since the epoch.
    """
    stream = await bus.state()  # before the readers: what comes between is nobody's to count as read
    readers = await bus.readers()
    if not readers or not stream.messages:
        return 0
    places = await _absent(bus, readers)
    inside = [place for name, place in places.items() if name not in OUTWARD]
    read = min(floor, stream.last, *(_read_up_to(reader, stream) for reader in readers), *inside)
    oldest = (now if now is not None else time.time()) - days * _DAY
    young, within = await _first_younger(bus, stream, oldest), _first_within(stream, gib * _GIB)
    before = max(min(young, read + 1, *(place + 1 for place in places.values())), min(within, read + 1))
    if before <= stream.first:
        return 0
    await bus.trim(before)
    trimmed = stream.messages - (await bus.state()).messages
    log.info("bus.trimmed", before=before, events=trimmed)
    return max(trimmed, 0)


def _read_up_to(reader: ReaderState, stream: StreamState) -> int:
    """A reader of rare events has read everything when nothing of its own is left, wherever its last one stood."""
    return reader.acknowledged if reader.pending else stream.last


async def _absent(bus: Bus, readers: Sequence[ReaderState]) -> dict[str, int]:
    """Positions of consumers whose durable is not there now: it is being made anew, or was lost with a file."""
    names = {reader.name for reader in readers}
    positions = {}
    for key in await bus.keys():
        name = key.removeprefix("position/")
        if name != key and name not in names:
            entry = await bus.get(key)
            if entry is not None and entry.value:
                positions[name] = _place(entry.value)
    return positions


def _place(value: bytes) -> int:
    """A consumer's position; 0, nothing read, when it cannot be read."""
    try:
        return int(json.loads(value)["seq"])
    except (ValueError, LookupError, TypeError):
        return 0


def _first_within(stream: StreamState, room: float) -> int:
    """The oldest event that still fits, taking all for equally large."""
    if stream.bytes <= room:
        return stream.first
    share = 1 - room / stream.bytes
    return stream.first + int((stream.last - stream.first + 1) * share) + 1


async def _first_younger(bus: Bus, stream: StreamState, time: float) -> int:
    """The first event stored at `time` or later, by bisection; one past the last when all are older."""
    low, high = stream.first, stream.last + 1
    while low < high:
        middle = (low + high) // 2
        found = await _at_or_behind(bus, middle)
        if found is None or found[0] >= high:
            high = middle  # nothing from here on
        elif found[1] < time:
            low = found[0] + 1
        else:
            high = middle
    return low


async def _at_or_behind(bus: Bus, seq: int) -> tuple[int, float] | None:
    """Place and time of the event at `seq`, or where that one is missing of the next there is."""
    if (event := await bus.at(seq)) is not None:
        return event.seq, event.time
    async with aclosing(bus.read(["conch.v1.>"], after=seq)) as events:  # type: ignore[type-var]
        async for event in events:
            return event.seq, event.time
    return None

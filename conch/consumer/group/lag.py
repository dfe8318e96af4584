"""How far everybody is who reads the stream, as their places in the bucket say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conch.bus import Bus, StreamState
from conch.consumer.group.position import position_key
from conch.errors import FencedError
from conch_schemas import STREAM_SUBJECTS, Event

_POSITIONS = position_key("")


@dataclass(frozen=True)
class ReaderLag:
    """How far one reader is."""

    name: str
    seq: int
    """Everything up to this place in the stream is done."""
    lag: int
    """Events that wait for it; of a consumer that workers share an estimate, and 0 only where none waits."""


async def standings(bus: Bus) -> list[ReaderLag]:
    """Every consumer that has a place on the bus, and every durable reader, by name.

    Lags are counted by the server. A place that cannot be read, or is of a stream before this one, is its start.
    """
    stream = await bus.state()
    keys = [key for key in await bus.keys() if key.startswith(_POSITIONS)]
    entries = await asyncio.gather(*(bus.get(key) for key in keys))
    told = {
        key.removeprefix(_POSITIONS): entry.value
        for key, entry in zip(keys, entries, strict=True)
        if entry is not None and entry.value  # empty: it was reset, or forgotten
    }
    found = await asyncio.gather(*(_standing(bus, stream, name, value) for name, value in told.items()))
    durable = [ReaderLag(one.name, one.acknowledged, one.pending) for one in await bus.readers()]
    return sorted([*found, *(one for one in durable if one.name not in told)], key=lambda one: one.name)


async def _standing(bus: Bus, stream: StreamState, name: str, value: bytes) -> ReaderLag:
    least, mean, filters = _consumer_position(value, stream)
    lag = await bus.count(filters, after=least) if least < stream.last else 0
    if lag and mean > least:
        # Whose of these events which are is not counted: taking all shares for equally busy, it is the mean place.
        lag = max(1, await bus.count(filters, after=mean))
    return ReaderLag(name, least, lag)


def _consumer_position(value: bytes, stream: StreamState) -> tuple[int, int, Sequence[str]]:
    """The least and the mean of a place's partitions, and the filters of what concerns the consumer."""
    try:
        told: Any = json.loads(value)
        end = stream.last if told["epoch"] == stream.epoch else 0
        shares = [int(seq) for seq, _ in (told.get("shares") or {}).values()] or [int(told["seq"])]
        filters = [f"conch.v1.*.{kind}" for kind in told.get("kinds") or ()]
        return min(*shares, end), min(sum(shares) // len(shares), end), filters or STREAM_SUBJECTS
    except (ValueError, LookupError, TypeError, AttributeError):
        return 0, 0, STREAM_SUBJECTS


async def report_position(bus: Bus, name: str, kinds: Sequence[type[Event]], seq: int) -> None:
    """Let others see how far `name` is, which keeps its place elsewhere. Who writes last is right."""
    key, epoch = position_key(name), (await bus.state()).epoch
    entry = await bus.get(key)
    value = {"seq": seq, "epoch": epoch, "kinds": [kind.TYPE for kind in kinds]}
    try:
        await bus.put(key, json.dumps(value).encode(), revision=entry.revision if entry is not None else 0)
    except FencedError:
        return  # another copy said it in this moment


async def forget(bus: Bus, name: str) -> bool:
    """Take away everything that the bus keeps of `name`; whether there was anything. Not while it runs.

    It holds up no trimming any more; should it come back, it begins at the start of what there is then.
    """
    prefixes = (f"state/{name}/", f"before/{name}/")
    known = any(one.name == name for one in await bus.readers())
    await bus.forget(name)
    for key in await bus.keys():
        entry = await bus.get(key) if key == position_key(name) or key.startswith(prefixes) else None
        if entry is not None and entry.value:
            known = True
            await bus.put(key, b"", revision=entry.revision)
    return known

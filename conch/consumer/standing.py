"""How far everybody is who reads the stream, as their places in the bucket say."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conch.bus import Bus, StreamState
from conch.consumer.place import position_key
from conch.errors import FencedError
from conch_schemas import STREAM_SUBJECTS, Event

_POSITIONS = position_key("")


@dataclass(frozen=True)
class Standing:
    """How far one reader is."""

    name: str
    seq: int
    """Everything up to this place in the stream is done."""
    lag: int
    """Events that wait for it; of a consumer that workers share an estimate, and 0 only where none waits."""


@dataclass(frozen=True)
class _Place:
    share: bool
    """Of one partition; else of the whole consumer, or how far it is searched for new agents."""
    seq: int
    kinds: tuple[str, ...]
    """What concerns it; empty: it does not say."""


async def standings(bus: Bus) -> list[Standing]:
    """Every consumer that has a place on the bus, and every durable reader, by name; partitions taken together.

    Lags are counted by the server. A place that cannot be read, or is of a stream before this one, is its start.
    """
    stream = await bus.state()
    places = await _places(bus, stream)
    found = await asyncio.gather(*(_standing(bus, stream, name, parts) for name, parts in places.items()))
    durable = [Standing(one.name, one.acknowledged, one.pending) for one in await bus.readers()]
    return sorted([*found, *(one for one in durable if one.name not in places)], key=lambda one: one.name)


async def _places(bus: Bus, stream: StreamState) -> dict[str, list[_Place]]:
    """The places of each consumer: its own, and one a partition."""
    found: dict[str, list[_Place]] = defaultdict(list)
    keys = [key.removeprefix(_POSITIONS) for key in await bus.keys() if key.startswith(_POSITIONS)]
    entries = await asyncio.gather(*(bus.get(_POSITIONS + key) for key in keys))
    for key, entry in zip(keys, entries, strict=True):
        name, share, _ = key.partition("/")
        if entry is not None and entry.value:  # empty: it was reset, or forgotten
            found[name].append(_place(entry.value, stream, share=bool(share)))
    return found


def _place(value: bytes, stream: StreamState, *, share: bool) -> _Place:
    try:
        told: Any = json.loads(value)
        seq = min(int(told["seq"]), stream.last) if told["epoch"] == stream.epoch else 0
        return _Place(share, seq, tuple(map(str, told.get("kinds") or ())))
    except (ValueError, LookupError, TypeError, AttributeError):
        return _Place(share, 0, ())


async def _standing(bus: Bus, stream: StreamState, name: str, parts: Sequence[_Place]) -> Standing:
    kinds = {kind for part in parts for kind in part.kinds}
    filters = [f"conch.v1.*.{kind}" for kind in sorted(kinds)] or STREAM_SUBJECTS
    least, shares = min(part.seq for part in parts), [part.seq for part in parts if part.share]
    lag = await bus.count(filters, after=least) if least < stream.last else 0
    if lag and shares:
        # Whose of these events which are is not counted: taking all shares for equally busy, it is the mean place.
        lag = max(1, await bus.count(filters, after=sum(shares) // len(shares)))
    return Standing(name, least, lag)


async def say_place(bus: Bus, name: str, kinds: Sequence[type[Event]], seq: int) -> None:
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
    prefixes = (f"{position_key(name)}/", f"state/{name}/", f"before/{name}/")
    known = any(one.name == name for one in await bus.readers())
    await bus.forget(name)
    for key in await bus.keys():
        entry = await bus.get(key) if key == position_key(name) or key.startswith(prefixes) else None
        if entry is not None and entry.value:
            known = True
            await bus.put(key, b"", revision=entry.revision)
    return known

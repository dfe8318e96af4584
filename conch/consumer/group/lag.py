"""The lag of every reader of the stream, computed from the positions that are stored in the checkpoint bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conch.bus import CLEARED, Bus, PositionRecord, StreamState, keys_of, position_consumer, position_key
from conch.errors import ContractError, FencedError
from conch.tasks import concurrently
from conch_schemas import STREAM_SUBJECTS, Event, type_filter


@dataclass(frozen=True)
class ReaderLag:
    """The position and the lag of one reader."""

    name: str
    seq: int
    """Every event up to this stream sequence is handled."""
    lag: int
    """Events that wait for it; of a consumer that workers share an estimate, and 0 only where none waits."""


async def standings(bus: Bus) -> list[ReaderLag]:
    """Every consumer that has a stored position, and every durable reader, by name.

    Lags are counted by the server. A position that cannot be read, or that belongs to an earlier stream, counts as 0.
    """
    stream = await bus.state()
    names = [name for key in await bus.keys() if (name := position_consumer(key)) is not None]
    entries = await concurrently(lambda name: bus.get(position_key(name)), names)
    told = {
        name: entry.value
        for name, entry in zip(names, entries, strict=True)
        if entry is not None and entry.value  # empty: it was reset, or forgotten
    }
    found = await concurrently(lambda one: _standing(bus, stream, *one), told.items())
    durable = [ReaderLag(one.name, one.acknowledged, one.pending) for one in await bus.readers()]
    return sorted([*found, *(one for one in durable if one.name not in told)], key=lambda one: one.name)


async def _standing(bus: Bus, stream: StreamState, name: str, value: bytes) -> ReaderLag:
    least, mean, filters = _consumer_position(value, stream)
    lag = await bus.count(filters, after=least) if least < stream.last else 0
    if lag and mean > least:
        # The lag is counted from the mean position of the partitions, as if all partitions had the same traffic.
        lag = max(1, await bus.count(filters, after=mean))
    return ReaderLag(name, least, lag)


def _consumer_position(value: bytes, stream: StreamState) -> tuple[int, int, Sequence[str]]:
    """The least and the mean sequence of a position's partitions, and the subject filters of what the consumer
    reads."""
    try:
        found = PositionRecord.decode(value)
    except ContractError:
        return 0, 0, STREAM_SUBJECTS
    end = stream.last if found.epoch == stream.epoch else 0
    seqs = [partition.seq for partition in (found.partitions or {}).values()] or [found.seq]
    filters = [type_filter(kind) for kind in found.kinds or ()]
    return min(*seqs, end), min(sum(seqs) // len(seqs), end), filters or STREAM_SUBJECTS


async def report_position(bus: Bus, name: str, kinds: Sequence[type[Event]], seq: int) -> None:
    """Publish the position of `name`, a reader that stores its position outside the bucket. The last write wins."""
    key, epoch = position_key(name), (await bus.state()).epoch
    entry = await bus.get(key)
    record = PositionRecord(seq=seq, epoch=epoch, kinds=tuple(kind.TYPE for kind in kinds))
    try:
        await bus.put(key, record.encode(), revision=entry.revision if entry is not None else 0)
    except FencedError:
        return  # another copy has just written it


async def forget(bus: Bus, name: str) -> bool:
    """Remove everything that the bus stores for `name`; returns whether there was anything. Not while it runs.

    It no longer delays the trimming; should the consumer come back, it begins at the start of the stream.
    """
    known = any(one.name == name for one in await bus.readers())
    await bus.forget(name)
    for key in keys_of(name, await bus.keys(), letters=True):
        entry = await bus.get(key)
        if entry is not None and entry.value:
            known = True
            await bus.put(key, CLEARED, revision=entry.revision)
    return known

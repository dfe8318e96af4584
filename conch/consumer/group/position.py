"""The position of a consumer: one sequence for each partition, and the partition's owner, in one key of the bucket.

A worker owns a partition while its id is stored with that partition. A worker that reads another id there has lost the
partition and raises `FencedError`. All workers of one consumer write to the same key, by compare-and-set: a worker
whose write fails reads the key again, checks that it still owns its partitions, and repeats the write.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from conch.bus import PARTITIONS, Bus, PartitionRecord, PositionRecord, checkpoints
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError, FencedError

EVERYTHING = frozenset(range(PARTITIONS))
RECENT = 512
"""Ids of handled events that a worker remembers, to detect a duplicate that the server no longer detects."""


def partition_of(agent: str) -> int:
    """The partition of an agent: always the same one, on every machine."""
    return zlib.crc32(agent.encode()) % PARTITIONS


@dataclass
class _LoadedPosition:
    """The stored record of a consumer. Sequences beyond the end of the stream are set back to its end."""

    partitions: dict[int, PartitionRecord]
    recent: dict[str, Sequence[str]]
    """Ids handled recently, by the worker that handled them."""
    epoch: str
    revision: int


@dataclass
class ConsumerPosition:
    """The position in the partitions that this worker owns: every event up to `seq` is handled, and what follows from
    it is published."""

    bus: Bus
    spec: ConsumerSpec
    holder: str
    """The owner id stored with our partitions; a new one each time."""
    floors: dict[int, int]
    """Up to where each of our partitions was handled when we took it."""
    seq: int
    record: _LoadedPosition
    """The stored record, as far as we know."""
    recent: dict[str, None] = field(default_factory=dict)
    """Ids handled of late, oldest first."""

    @property
    def epoch(self) -> str:
        """The epoch of the stream that the position belongs to."""
        return self.record.epoch

    def holds(self, agent: str) -> bool:
        """Whether an agent's events are ours."""
        return partition_of(agent) in self.floors

    def floor(self, agent: str) -> int:
        """Up to where that agent's events were handled when we took them."""
        return self.floors[partition_of(agent)]

    def remember(self, id: str) -> None:
        """Put `id` among the recent ones."""
        self.recent[id] = None
        if len(self.recent) > 2 * RECENT:
            del self.recent[next(iter(self.recent))]

    async def save(self, seq: int, recent: Sequence[str] = ()) -> None:
        """Store that everything up to `seq` is handled. Raises FencedError when another worker has taken a
        partition."""
        await self._write(seq, recent, self.holder)
        self.seq = seq

    async def let_go(self) -> None:
        """Release the partitions: others may take them at once. Raises FencedError when another worker has one
        already."""
        await self._write(self.seq, list(self.recent), "")

    async def is_held(self) -> bool:
        """Whether all of it still bears our name."""
        return self._is_ours(await _load(self.bus, self.spec))

    def _is_ours(self, record: _LoadedPosition) -> bool:
        return all(record.partitions[number].owner == self.holder for number in self.floors)

    async def _write(self, seq: int, recent: Sequence[str], holder: str) -> None:
        while True:
            record = self.record
            for number, floor in self.floors.items():
                record.partitions[number] = PartitionRecord(max(seq, floor), holder)
            record.recent[self.holder] = recent[-RECENT:]
            if await _stored(self.bus, self.spec, record):
                return
            self.record = await _load(self.bus, self.spec)  # a worker beside us wrote, or one that took over
            if not self._is_ours(self.record):
                raise FencedError(f"another copy of {self.spec.name} has taken over from this one; this one stops")


async def take_position(
    bus: Bus,
    spec: ConsumerSpec,
    *,
    mine: Collection[int] = EVERYTHING,
    worker: str = "alone",
    is_gone: Callable[[str], bool] = lambda _: True,
) -> ConsumerPosition:
    """Take those of the partitions `mine` that have no owner, or whose owner `is_gone` (by default: all of them).

    Other partitions that an earlier process held under this worker's id are released: no other worker would take them
    while this id is alive. The earlier owner of a partition is fenced at its next write. Raises ContractError for a
    position that cannot be read.
    """
    holder = f"{worker}.{uuid.uuid4().hex[:8]}"
    while True:
        record = await _load(bus, spec)
        free = [number for number in mine if is_free(record.partitions[number].owner, worker, is_gone)]
        left = [
            number
            for number, partition in record.partitions.items()
            if number not in mine and _worker_of(partition.owner) == worker
        ]
        for number in free:
            record.partitions[number] = record.partitions[number]._replace(owner=holder)
        for number in left:
            record.partitions[number] = record.partitions[number]._replace(owner="")
        if not (free or left) or await _stored(bus, spec, record):
            break
    floors = {number: record.partitions[number].seq for number in free}
    recent = dict.fromkeys(id for ids in record.recent.values() for id in ids)
    return ConsumerPosition(bus, spec, holder, floors, min(floors.values(), default=0), record, recent)


def is_free(holder: str, worker: str, is_gone: Callable[[str], bool]) -> bool:
    """Whether a partition that bears this name may be taken by `worker`: what a process before it held is its own."""
    name = _worker_of(holder)
    return not name or name == worker or is_gone(name)


def _worker_of(holder: str) -> str:
    return holder.rpartition(".")[0]


async def free(
    bus: Bus, spec: ConsumerSpec, partitions: Collection[int], worker: str, is_gone: Callable[[str], bool]
) -> set[int]:
    """Those of the partitions that `worker` may take now."""
    record = await _load(bus, spec)
    return {number for number in partitions if is_free(record.partitions[number].owner, worker, is_gone)}


async def holder_of(bus: Bus, consumer: str, agent: str) -> str | None:
    """The worker that owns the agent's partition of a consumer now; None when it has no owner."""
    entry = await bus.get(checkpoints.position_key(consumer))
    try:
        record = PositionRecord.decode(entry.value) if entry is not None else None
    except ContractError:
        return None
    return record.owner_of(partition_of(agent)) if record is not None else None


async def _load(bus: Bus, spec: ConsumerSpec) -> _LoadedPosition:
    """The stored record, set back where it is ahead of the stream (which was restored, or made anew)."""
    state, entry = await bus.state(), await bus.get(checkpoints.position_key(spec.name))
    if entry is None or not entry.value:
        begin = min(spec.begin, state.last) if entry is None else 0  # reset: from the start
        everything = dict.fromkeys(EVERYTHING, PartitionRecord(begin, ""))
        return _LoadedPosition(everything, {}, state.epoch, entry.revision if entry is not None else 0)
    try:
        found = PositionRecord.decode(entry.value)
        whole = found.whole
    except ContractError as error:
        raise ContractError(
            f"the position of {spec.name} cannot be read ({error}): conch consumer reset {spec.name}"
        ) from None
    end = state.last if found.epoch == state.epoch else 0
    partitions = {number: one._replace(seq=min(one.seq, end)) for number, one in whole.items()}
    return _LoadedPosition(partitions, {**found.recent} if found.recent else {}, state.epoch, entry.revision)


async def _stored(bus: Bus, spec: ConsumerSpec, record: _LoadedPosition) -> bool:
    """Whether the write succeeded, that is, the key was unchanged since it was read."""
    owners = {partition.owner for partition in record.partitions.values()}
    left = [id for who, ids in record.recent.items() if who not in owners for id in ids]
    recent = {who: tuple(ids) for who, ids in record.recent.items() if who in owners} | {"": tuple(left[-RECENT:])}
    value = PositionRecord(
        seq=min(partition.seq for partition in record.partitions.values()),
        epoch=record.epoch,
        version=spec.version,
        kinds=tuple(kind.TYPE for kind in spec.kinds),
        partitions=dict(sorted(record.partitions.items())),
        recent=recent,
    )
    try:
        record.revision = await bus.put(checkpoints.position_key(spec.name), value.encode(), revision=record.revision)
    except FencedError:
        return False
    return True

"""Membership of a consumer group: which worker processes are alive, by heartbeats in the checkpoint bucket."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b

from conch.bus import CLEARED, Bus, KeyValue, WorkerRecord, worker_key, worker_name
from conch.consumer.group.position import EVERYTHING
from conch.errors import BusError, ContractError, FencedError
from conch.log import get_logger
from conch.tasks import background, concurrently

log = get_logger(__name__)

BEAT_SECONDS = 1.0
"""Seconds between two heartbeats."""
LEASE_SECONDS = 5.0
"""A worker without a heartbeat for this long is taken for dead, and its agents go to the other workers. Clocks need not
agree: each worker times the others' heartbeats by its own clock."""
SELDOM = 5
"""Beats between two looks at workers that had left: one that bears such a name again is heard of that late."""


@dataclass
class _OtherWorker:
    """Another worker, and when its last heartbeat was seen."""

    entry: KeyValue
    heard: float
    """Time of that heartbeat's arrival, by our own monotonic clock."""
    consumers: frozenset[str]


class Membership:
    """The workers that are alive on a bus, including this one. Made by `joined`."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.name = name
        """This worker's own."""
        self.consumers: set[str] = set()
        """Consumers that this worker takes part in; the other workers learn them with the next heartbeat."""
        self.changed = asyncio.Event()
        """Set whenever workers came, went, or were heard of for the first time."""
        self._bus = bus
        self._others: dict[str, _OtherWorker] = {}
        self._revision = 0
        self._shown: set[str] = set()
        self._left: set[str] = set()
        self._looks = 0
        self._beating = asyncio.Lock()

    def share(self, consumer: str) -> set[int]:
        """The consumer's partitions that fall to this worker."""
        alive = [name for name, other in self._others.items() if consumer in other.consumers]
        return {number for number, name in dealt(consumer, [*alive, self.name]).items() if name == self.name}

    def is_gone(self, name: str) -> bool:
        """Whether the worker `name` is dead; False for this one."""
        return name not in self._others and name != self.name

    async def beat(self) -> None:
        """Write a heartbeat, and read those of the other workers."""
        async with self._beating:
            await self._beat()

    async def _beat(self) -> None:
        consumers, beat = tuple(sorted(self.consumers)), str(uuid.uuid4())
        record = WorkerRecord(consumers=consumers, host=socket.gethostname(), pid=os.getpid(), beat=beat)
        await self._write(record.encode())
        self._shown = set(self.consumers)
        await self._look()

    async def show(self) -> None:
        """Write a heartbeat at once where the other workers do not know this worker's consumers yet."""
        if self._shown != self.consumers:
            await self.beat()

    async def leave(self) -> None:
        """Remove this worker's heartbeat, so that the others take it for gone at once."""
        await self._write(CLEARED)

    async def _write(self, value: bytes) -> None:
        while True:
            try:
                self._revision = await self._bus.put(worker_key(self.name), value, revision=self._revision)
                return
            except FencedError:  # a process before this one bore the name
                entry = await self._bus.get(worker_key(self.name))
                self._revision = entry.revision if entry is not None else 0

    async def _look(self) -> None:
        now, met = time.monotonic(), set(self._others)
        self._looks += 1
        workers = (worker_name(key) for key in await self._bus.keys())
        keys = {worker for worker in workers if worker is not None and worker != self.name}
        # Workers that left are checked rarely: their keys stay in the bucket.
        names = sorted(keys if self._looks % SELDOM == 0 else keys - self._left)
        entries = await concurrently(lambda name: self._bus.get(worker_key(name)), names)
        for name, entry in zip(names, entries, strict=True):
            if entry is None or not entry.value:
                self._others.pop(name, None)
                self._left.add(name)
                continue
            self._left.discard(name)
            known = self._others.get(name)
            if known is None or known.entry.revision != entry.revision:
                self._others[name] = _OtherWorker(entry, now, _consumers(entry.value))
            elif now - known.heard > LEASE_SECONDS:
                await self._bury(name, entry)
        if set(self._others) != met:
            self.changed.set()

    async def _bury(self, name: str, entry: KeyValue) -> None:
        log.warning("worker.gone", worker=name, silent_seconds=LEASE_SECONDS)
        self._others.pop(name, None)
        try:
            await self._bus.put(worker_key(name), CLEARED, revision=entry.revision)
        except FencedError:
            log.info("worker.back", worker=name)


def dealt(consumer: str, names: Collection[str]) -> dict[int, str]:
    """The worker that owns each of the consumer's partitions: the same answer wherever the same workers are alive.

    Rendezvous hashing with even shares: the numbers of partitions of two workers differ by at most one, as long as
    there are partitions for all, and few partitions change their owner when a worker comes or goes.
    """
    floor, extra = divmod(len(EVERYTHING), len(names))
    room = dict.fromkeys(names, floor)
    owners: dict[int, str] = {}
    pairs = ((number, name) for number in EVERYTHING for name in names)
    for number, name in sorted(pairs, key=lambda pair: blake2b(f"{consumer}/{pair[0]}/{pair[1]}".encode()).digest()):
        if number in owners or room[name] < (0 if extra else 1):
            continue
        extra -= room[name] == 0
        room[name] -= 1
        owners[number] = name
    return owners


async def signs(bus: Bus, consumer: str) -> dict[str, int]:
    """The workers that take part in a consumer, each with the revision of its last heartbeat: it grows while the worker
    lives."""
    found = {}
    for key in await bus.keys():
        if (name := worker_name(key)) is None:
            continue
        entry = await bus.get(key)
        if entry is not None and consumer in _consumers(entry.value):
            found[name] = entry.revision
    return found


def own_name() -> str:
    """The id of this process as a worker, from its host and pid."""
    return f"{socket.gethostname()}-{os.getpid()}".replace(".", "-")


def _consumers(value: bytes) -> frozenset[str]:
    try:
        return frozenset(WorkerRecord.decode(value).consumers)
    except ContractError:
        return frozenset()  # not a heartbeat of Conch's: that key has no consumers


@asynccontextmanager
async def joined(bus: Bus, consumers: Collection[str], name: str | None = None) -> AsyncIterator[Membership]:
    """This process as a worker of `consumers`, named `name`, else by `own_name`; left in order, it is gone at once."""
    members = Membership(bus, name or own_name())
    members.consumers |= set(consumers)
    await members.beat()
    try:
        async with background(_beat(members), name="conch.members"):
            yield members
    finally:
        if bus.connected:
            try:
                await members.leave()
            except BusError as error:  # the others see that no heartbeat comes any more
                log.warning("worker.leave_failed", error=str(error))


async def _beat(members: Membership) -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        try:
            await members.beat()
        except BusError as error:
            log.warning("worker.beat_failed", error=str(error))

"""Everybody at work on a cluster while its servers are killed, one after the other: what became of it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.protocol import Reader
from conch.errors import FencedError
from conch_schemas import MessageReceived, subject_filter
from tests.cluster.servers import PATIENCE, SIZE, Cluster
from tests.faults.load import Counted, counted, loaded
from tests.run.conftest import House, Live

SAID = [subject_filter(MessageReceived)]
KEY = "tally/of-all"
AGENTS = 3


@dataclass
class Tally:
    """Of a value of the bucket that several raise by one, each under its own name."""

    raised: int = 0
    """Writes that were acknowledged."""
    fenced: int = 0
    """Writes that were refused as another's came first."""
    stands: int = 0


@dataclass
class Aftermath:
    """What is left."""

    house: House
    """Of a run with AGENTS agents that was at work all the time, and has ended since."""
    environment: dict[str, str]
    """With which its commands find the bus."""
    stopped: int = -1
    """The run's exit status."""
    singly: Counted = field(default_factory=lambda: Counted(0))
    in_groups: Counted = field(default_factory=lambda: Counted(0))
    """Of two loads, the second of which was committed in groups."""
    tally: Tally = field(default_factory=Tally)
    stored: list[int] = field(default_factory=list)
    """Where the first load's messages stand."""
    followed: list[int] = field(default_factory=list)
    """The same, as two readers were handed them, one with a durable and one without a name."""
    entered: int = 0
    """Commands that reached the bus right after a kill."""


async def besieged(cluster: Cluster, house: House) -> Aftermath:
    """Kill each server once, the one that leads a stream first; each time until everybody has gone on."""
    one, two, three = [await _made(cluster) for _ in range(3)]
    environment = {"CONCH_BUS__URL": three.url, "CONCH_BUS__REPLICAS": "3", "CONCH_BUS__DURABILITY": "fast"}
    left = Aftermath(house, environment)
    run = house.begin("--agents", str(AGENTS), "--script", house.endless(), interval=0.2, **environment)
    await asyncio.to_thread(run.recorded, AGENTS)
    async with JetStreamBus(one) as bus, _reading(bus, left):
        async with (
            loaded(one.url, None) as load,
            loaded(two.url, None, strict=True) as grouped,
            _raising(one, left.tally),
        ):
            first = await leader_of(bus)
            for node in sorted(cluster.nodes, key=lambda node: node.name != first):
                node.kill()
                await asyncio.gather(load.recovered(), grouped.recovered(), _enter(one, left), _recorded(run))
                node.start()
                await asyncio.to_thread(cluster.ready)
        left.stored = [delivery.seq async for delivery in bus.read(SAID)]
    left.singly, left.in_groups = await counted(load, one.url, None), await counted(grouped, two.url, None)
    run.signal(signal.SIGTERM)
    left.stopped = await asyncio.to_thread(run.ended)
    return left


async def leader_of(bus: JetStreamBus) -> str:
    """Which server has the last word about the stream."""
    return str((await bus._connection.api("STREAM.INFO.CONCH"))["cluster"]["leader"])


async def _made(cluster: Cluster) -> Access:
    """A stream and a bucket with three copies."""
    access = cluster.access(cluster.new_account())
    async with JetStreamBus(access, replicas=SIZE):
        return access


async def _enter(access: Access, left: Aftermath) -> None:
    async with JetStreamBus(access) as bus:
        assert (await bus.state()).last > 0
        left.entered += 1


async def _recorded(run: Live) -> None:
    await asyncio.to_thread(run.recorded, 2 * AGENTS)


@asynccontextmanager
async def _raising(access: Access, tally: Tally) -> AsyncIterator[None]:
    """Two who write the same key, by compare-and-set; left, what stands there is looked at."""
    over = asyncio.Event()

    async def rise(bus: Bus, name: str) -> None:
        while not over.is_set():
            entry = await bus.get(KEY)
            before, revision = (int(entry.value.split()[0]), entry.revision) if entry is not None else (0, 0)
            try:
                await bus.put(KEY, f"{before + 1} {name}".encode(), revision=revision)
                tally.raised += 1
            except FencedError:
                tally.fenced += 1

    async with JetStreamBus(access) as here, JetStreamBus(access) as there:
        async with asyncio.TaskGroup() as group:
            group.create_task(rise(here, "here"))
            group.create_task(rise(there, "there"))
            yield
            over.set()
        entry = await here.get(KEY)
        assert entry is not None
        tally.stands = int(entry.value.split()[0])


@asynccontextmanager
async def _reading(bus: Bus, left: Aftermath) -> AsyncIterator[None]:
    """A reader reads all the time; left, it has read all that `left.stored` tells."""

    async def read(reader: Reader, found: list[int]) -> None:
        while True:
            found += [delivery.seq for delivery in await reader.get()]

    async with bus.follow(SAID, after=0) as reader:
        reading = asyncio.create_task(read(reader, left.followed))
        yield
        async with asyncio.timeout(PATIENCE):
            while len(left.followed) < len(left.stored):
                await asyncio.sleep(0.005)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

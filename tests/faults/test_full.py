"""No room: in the stream, or on the disk below it. Publishers wait; what was acknowledged stays, nothing doubles."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, OutgoingMessage
from conch.bus.server import EmbeddedServer
from tests.conftest import TOKEN

if TYPE_CHECKING:
    from conch.bus.jetstream import JetStreamBus
    from tests.conftest import Until, World


SUBJECT = "conch.v1.echo.goal.set"


class Publishing:
    """Events of a kilobyte, singly and in batches, all at once; what was acknowledged, and where."""

    def __init__(self, bus: Bus, count: int) -> None:
        self.acknowledged: dict[str, int] = {}
        self._bus, draw, numbers = bus, random.Random(1), iter(range(count))
        batches = list(iter(lambda: list(islice(numbers, draw.choice((1, 10)))), []))
        self.all = asyncio.gather(*(self._publish(batch) for batch in batches))

    async def _publish(self, batch: list[int]) -> None:
        events = [OutgoingMessage(SUBJECT, b"%d " % number + b"x" * 1000, str(number)) for number in batch]
        stored = await self._bus.publish_many(events)
        self.acknowledged |= {event.id: where.seq for event, where in zip(events, stored, strict=True)}


async def places(bus: Bus) -> dict[str, list[int]]:
    """Id of an event -> every place where it stands."""
    found: dict[str, list[int]] = {}
    async for delivery in bus.read([SUBJECT]):
        found.setdefault(delivery.data.split()[0].decode(), []).append(delivery.seq)
    return found


async def standing(publishing: Publishing, until: Callable[..., Any]) -> int:
    """Events that are acknowledged, once no more are: there is no room."""
    await until(lambda: publishing.acknowledged)
    before = -1
    while before < len(publishing.acknowledged):
        before = len(publishing.acknowledged)
        await asyncio.sleep(0.5)  # time in which another one would be
    return before


async def test_batches_wait_for_room_in_the_stream(world: World, until: Until) -> None:
    """More than fits, in batches too: each event is acknowledged once it stands, and trimming lets the next ones in."""
    seen: list[str] = []
    async with world.bus(room=50) as bus, bus.follow([SUBJECT], after=0) as reader:
        publishing = Publishing(bus, 400)
        while len(seen) < 400:
            async with asyncio.timeout(30):
                found = await reader.get()
            seen += [delivery.data.split()[0].decode() for delivery in found]
            assert (await bus.state()).messages <= 55
            await bus.trim(found[-1].seq + 1)
        await asyncio.wait_for(publishing.all, 30)

    assert sorted(map(int, seen)) == list(range(400))
    assert sorted(publishing.acknowledged.values()) == list(range(1, 401))


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "fast"])
async def test_a_full_disk_loses_nothing(
    strict: bool, mounted: Callable[..., Path], bus_at: Callable[[str], JetStreamBus], until: Until
) -> None:
    """Publishers wait. Where the server's disk had no room, room alone is not enough: the server is started again,
    then they go on by themselves; what was acknowledged stands where it stood, and nothing stands twice."""
    place = mounted("-t", "tmpfs", "-o", "size=3m", "tmpfs")
    server = EmbeddedServer(place / "nats", token=TOKEN, strict=strict, max_bytes=2**30)
    await server.start()
    async with bus_at(server.url) as bus:
        publishing = Publishing(bus, 4000)
        full = await standing(publishing, until)
        assert 0 < full < 4000
        subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)
        await server.stop()
        await server.start()
        await asyncio.wait_for(publishing.all, 30)
        found = await places(bus)
    await server.stop()

    assert set(found) == set(map(str, range(4000)))
    assert all(found[id] == [seq] for id, seq in publishing.acknowledged.items())

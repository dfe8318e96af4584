"""The publishing process is killed, stopped or cancelled: what was acknowledged is there, what it repeats is known."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from conch.bus import Bus
from conch.bus.server import EmbeddedServer
from tests.conftest import TOKEN
from tests.faults.load import message
from tests.faults.processes import Publisher, publisher
from tests.faults.proxy import Proxy

if TYPE_CHECKING:
    from conch.bus.jetstream import JetStreamBus
    from tests.conftest import Until


pytestmark = pytest.mark.torture


@pytest.fixture
async def publish() -> AsyncIterator[Callable[..., Awaitable[Publisher]]]:
    """`await publish(url, first)`: a process that publishes from there on, killed at the end of the test."""
    started: list[Publisher] = []

    async def start(url: str, first: int) -> Publisher:
        started.append(await publisher(url, TOKEN, first))
        return started[-1]

    yield start
    for one in started:
        await one.ended()


async def numbers(bus: Bus) -> dict[int, list[int]]:
    """Number of a message -> every place where it stands."""
    found: dict[int, list[int]] = {}
    async for delivery in bus.read(["conch.v1.>"]):
        found.setdefault(int(json.loads(delivery.data)["data"]["text"]), []).append(delivery.seq)
    return found


async def test_a_publisher_that_is_killed_has_lost_nothing(
    nats_server: EmbeddedServer,
    publish: Callable[..., Awaitable[Publisher]],
    bus_at: Callable[[str], JetStreamBus],
    until: Until,
) -> None:
    """kill -9 in mid-publish: what it had heard of is there; the next process publishes what it cannot know of again,
    and nothing stands twice."""
    draw = random.Random(5)
    acknowledged: dict[int, int] = {}
    for _ in range(3):
        one = await publish(nats_server.url, max(acknowledged, default=0) + 1)
        enough = draw.randrange(50, 500)
        await until(lambda one=one, enough=enough: len(one.acknowledged) > enough)
        await one.ended()
        acknowledged |= one.acknowledged

    async with bus_at(nats_server.url) as bus:
        found = await numbers(bus)
    assert all(found[number] == [place] for number, place in acknowledged.items())
    assert set(range(1, max(acknowledged) + 1)) <= set(found)
    assert all(len(places) == 1 for places in found.values())


async def test_a_publisher_that_stood_still_goes_on(
    nats_server: EmbeddedServer,
    proxy: Proxy,
    publish: Callable[..., Awaitable[Publisher]],
    bus_at: Callable[[str], JetStreamBus],
    until: Until,
) -> None:
    """SIGSTOP, its connection reset meanwhile, SIGCONT: it connects anew, and what was on its way stands once."""
    one = await publish(proxy.url, 1)
    for _ in range(3):
        before = len(one.acknowledged)
        await until(lambda before=before: len(one.acknowledged) > before + 100)
        one.process.send_signal(signal.SIGSTOP)
        proxy.cut()
        await until(lambda: not proxy.connections)
        one.process.send_signal(signal.SIGCONT)
    await one.ended()

    async with bus_at(nats_server.url) as bus:
        found = await numbers(bus)
    assert proxy.cuts >= 3
    assert all(found[number] == [place] for number, place in one.acknowledged.items())
    assert all(len(places) == 1 for places in found.values())


async def test_a_publish_that_was_cancelled_may_be_made_again(bus: Bus) -> None:
    """Cancelled at any moment, singly or in a batch, it is stored or not; made again, it is stored once."""
    draw = random.Random(6)
    for number in range(1, 101):
        one = message("echo", number)
        batch = [message("many", 10 * number + place) for place in range(10)]
        for attempt in (bus.publish(one.subject, one.data, id=one.id), bus.publish_many(batch)):
            trying = asyncio.ensure_future(attempt)
            for _ in range(draw.randrange(8)):
                await asyncio.sleep(0)
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)
        await bus.publish(one.subject, one.data, id=one.id)
        await bus.publish_many(batch)

    state = await bus.state()
    assert (state.last, state.messages) == (1100, 1100)

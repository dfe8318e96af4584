"""What a network does: cut, delayed, throttled, silent. Acknowledged once means stored once; readers see each once."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import OutgoingMessage
from conch.consumer.runtime import snapshots
from tests.faults.conftest import either_way
from tests.faults.load import message
from tests.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from conch.bus.jetstream import JetStreamBus
    from conch.bus.server import EmbeddedServer
    from tests.conftest import Until
    from tests.faults.load import Counted, Load


SUBJECT = "conch.v1.echo.goal.set"
SAID = "conch.v1.*.message.received"

pytestmark = pytest.mark.usefixtures("quick_pings")


@either_way
async def test_a_cut_in_the_middle_of_an_event_tears_nothing(
    proxy: Proxy,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
) -> None:
    """A publish of which the server has some bytes is made again: it stands once, whole, in its agent's order."""
    draw = random.Random(3)
    async with load_at(proxy.url) as load:
        for _ in range(8):
            proxy.up.cut_after(draw.randrange(1, 20_000))
            await until(lambda: not proxy.up.armed)
            await load.recovered()

    found = await audit(load)
    assert proxy.cuts >= 8
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


@either_way
async def test_a_cut_in_the_middle_of_an_acknowledgement_doubles_nothing(
    proxy: Proxy,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
) -> None:
    """The server has stored what the publisher cannot know of: published again, it is found to be there."""
    draw = random.Random(4)
    async with load_at(proxy.url) as load:
        for _ in range(8):
            proxy.down.cut_at(b'"stream":"CONCH"', draw.randrange(1, 30))
            await until(lambda: not proxy.down.armed)
            await load.recovered()

    found = await audit(load)
    assert load.repeated > 0  # it was hit: the first try had arrived
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


@pytest.mark.parametrize("half", ["on its way", "stored"])
async def test_a_cut_while_a_place_is_written_fences_nobody(
    half: str,
    proxy: Proxy,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer whose write of its position is lost, or only its acknowledgement, writes again: what stands there is
    its own, and it does not take itself for another copy."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_SECONDS", 0.005)
    monkeypatch.setattr(snapshots, "SNAPSHOT_LONGEST", 0.005)
    async with load_at(proxy.url) as load:
        for _ in range(6):
            way, trap = (proxy.up, b"$KV.conch.") if half == "on its way" else (proxy.down, b'"stream":"KV_conch"')
            way.cut_at(trap)
            await until(lambda way=way: not way.armed)
            await load.recovered()

    found = await audit(load)
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


@pytest.mark.parametrize("ways", [("up", "down"), ("up",), ("down",)], ids=["both ways", "there", "back"])
async def test_a_black_hole_is_found_out(
    ways: tuple[str, ...],
    proxy: Proxy,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
) -> None:
    """Nothing is reset, nothing comes: unanswered pings tell, publishers wait, and go on when the network does. What
    was held arrives late, beside what was sent again: it stands once."""
    async with load_at(proxy.url) as load:
        for _ in range(2):
            with proxy.held(*(getattr(proxy, way) for way in ways)):
                await until(lambda: not load.bus.connected, seconds=60)
                before = len(load.acknowledged)
            await load.recovered()
            assert len(load.acknowledged) > before

    found = await audit(load)
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


async def test_a_short_silence_is_not_noticed(
    proxy: Proxy, bus_at: Callable[[str], JetStreamBus], monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """Silent for less than three pings: no reconnect, and nothing is sent twice."""
    async with bus_at(proxy.url) as bus:
        with proxy.held():
            publishing = asyncio.gather(*(bus.publish(*message("echo", n)[:2], id=str(n)) for n in range(50)))
            await asyncio.wait([publishing], timeout=0.2)
            assert not publishing.done()

        stored = await asyncio.wait_for(publishing, 10)
    assert [one.seq for one in stored] == list(range(1, 51))
    assert not any(one.duplicate for one in stored)


async def test_a_far_away_server_costs_time_only(proxy: Proxy, bus_at: Callable[[str], JetStreamBus]) -> None:
    """50 ms each way: what is published at once is acknowledged at its first try, within a few times that."""
    proxy.up.delay = proxy.down.delay = 0.05
    async with bus_at(proxy.url) as bus, bus.follow([SAID], after=0) as reader, asyncio.timeout(5):
        singly = [bus.publish(*message("one", number)[:2], id=f"{number}") for number in range(100)]
        many = bus.publish_many([message("many", number) for number in range(100)])
        *stored, batch = await asyncio.gather(*singly, many)
        found = await taken(reader, 200)

    assert sorted(one.seq for one in [*stored, *batch]) == found == list(range(1, 201))
    assert not any(one.duplicate for one in [*stored, *batch])


async def test_a_slow_reader_delays_nobody_and_misses_nothing(
    proxy: Proxy, nats_server: EmbeddedServer, bus_at: Callable[[str], JetStreamBus]
) -> None:
    """Behind a thin line it gets megabytes late, each once and in order; others read and publish as ever."""
    events = [OutgoingMessage(SUBJECT, b"%d " % number + b"x" * 20_000, str(number)) for number in range(300)]
    proxy.down.rate = 4_000_000
    async with (
        bus_at(proxy.url) as far,
        bus_at(nats_server.url) as near,
        far.follow([SUBJECT], after=0) as slow,
        near.follow([SUBJECT], after=0) as quick,
    ):
        slowly = asyncio.create_task(taken(slow, 300))
        await near.publish_many(events)
        soon = await taken(quick, 300)
        assert not slowly.done()
        late = await slowly

    assert soon == late == list(range(1, 301))


async def taken(reader: Any, count: int) -> list[int]:
    """The places of the next `count` events."""
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [delivery.seq for delivery in await reader.get()]
    return found

"""A stream that is removed, or made anew, while somebody reads it: said, and nothing is passed over."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Reader, shared_subscription
from conch.bus.jetstream import JetStreamBus, reader
from conch.bus.jetstream.connection import Connection
from conch.bus.server import EmbeddedServer
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.consumer.group.membership import joined
from conch.consumer.host import host
from conch.consumer.process import builtin
from conch.errors import BusError
from conch_schemas import NeedsChanged, RewardAssigned, encode, subject_filter

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until


SUBJECT = "conch.v1.echo.action.taken"


@pytest.fixture
async def bus(nats_server: EmbeddedServer) -> AsyncIterator[JetStreamBus]:
    async with JetStreamBus(nats_server.access) as entered:
        yield entered


async def fill(bus: JetStreamBus, count: int, begin: int = 0) -> None:
    for number in range(begin, begin + count):
        await bus.publish(SUBJECT, b"%d" % number, id=f"{number}")


async def take(one: Reader, count: int) -> None:
    taken = 0
    while taken < count:
        taken += len(await one.get())


async def removed(server: EmbeddedServer) -> None:
    """By somebody else."""
    async with Connection(server.access) as connection:
        await connection.api("STREAM.DELETE.CONCH")


@pytest.mark.parametrize("behind", [2, 9], ids=["fewer", "more"])
async def test_a_stream_made_anew_is_not_read_on(bus: JetStreamBus, nats_server: EmbeddedServer, behind: int) -> None:
    """Its places mean something else: a reader that went on would pass over what stands there now."""
    await fill(bus, 5)
    async with bus.follow([SUBJECT], after=0) as one:
        await take(one, 5)
        await removed(nats_server)
        async with JetStreamBus(nats_server.access) as other:
            await fill(other, behind, 100)

            with pytest.raises(BusError, match=r"was made anew, .* \(up to 5; it ends at \d\): start again|is gone"):
                await one.get()


async def test_the_error_that_ends_the_shared_reader_is_raised_and_not_reported_a_second_time(
    bus: JetStreamBus, nats_server: EmbeddedServer
) -> None:
    """Each subscription raises it; asyncio finds no task whose error was never retrieved."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    await fill(bus, 1)
    async with shared_subscription(bus) as shared_events, shared_events.subscribe(None, after=1) as subscription:
        await removed(nats_server)

        with pytest.raises(BusError, match="is gone"):
            async with asyncio.timeout(30):
                await subscription.get()
    del shared_events, subscription
    gc.collect()

    assert not reports


async def test_consumers_of_a_stream_made_anew_end_and_begin_with_it_anew(
    bus: JetStreamBus, nats_server: EmbeddedServer, act: MakeAct, tmp_path: Path, until: Until
) -> None:
    """Whatever they have read of the one before: every act on the new one is scored."""
    context = ServiceContext(Settings(), tmp_path)

    async def scored(bus: JetStreamBus) -> int:
        return await bus.count([subject_filter(RewardAssigned), subject_filter(NeedsChanged)], after=0)

    async def put(bus: JetStreamBus, *cycles: int) -> None:
        for cycle in cycles:
            await bus.publish(SUBJECT, encode(act(cycle)), id=act(cycle).id)

    async def run(bus: JetStreamBus, stop: asyncio.Event) -> None:
        async with shared_subscription(bus) as shared_events, joined(bus, ["reward", "needs"]) as members:
            running = builtin(context, ["reward", "needs"], members)
            await host(shared_events, running, stop, lambda _: None)

    stop = asyncio.Event()
    hosting = asyncio.create_task(run(bus, stop))
    await put(bus, 1, 2, 3)
    await until(lambda: _is(scored(bus), 6))
    await removed(nats_server)
    async with JetStreamBus(nats_server.access) as anew:
        await put(anew, 4, 5)
        with pytest.raises(BusError, match=r"was made anew|is gone"):
            async with asyncio.timeout(30):
                await hosting

        hosting = asyncio.create_task(run(anew, stop))
        await put(anew, 6)
        await until(lambda: _is(scored(anew), 6))
        stop.set()
        await hosting


async def _is(counting: Awaitable[int], wanted: int) -> bool:
    return await counting == wanted


async def test_a_stream_that_is_gone_is_said(bus: JetStreamBus, nats_server: EmbeddedServer) -> None:
    """In one sentence."""
    await fill(bus, 1)
    async with bus.follow([SUBJECT], after=0) as one:
        await take(one, 1)
        await removed(nats_server)

        with pytest.raises(BusError, match="the stream CONCH is gone: somebody has removed it; start again"):
            await one.get()


async def test_a_stream_that_has_lost_its_end_is_not_read_on(
    bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server had not written down when power failed; a leader that only has to catch up is waited for."""
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0.01)
    await fill(bus, 3)
    async with bus.follow([SUBJECT], after=0) as one:
        await take(one, 3)
        one._last += 2
        one._break()
        looked: Any = one._looked_up

        async def catch_up() -> str:
            if bus_has == [3]:
                await fill(bus, 2, 3)
                bus_has.append(5)
            return str(await looked())

        bus_has = [3]
        one._looked_up = catch_up
        await fill(bus, 1, 5)
        assert [event.seq for event in await one.get()] == [6]
        one._last += 5
        one._break()

        with pytest.raises(BusError, match=r"lost its end, .* \(up to 11; it ends at 6\)"):
            await one.get()


@pytest.mark.parametrize("step", ["STREAM.INFO", "CONSUMER.CREATE"])
async def test_a_stream_that_goes_while_a_reader_is_made_anew_is_said(
    bus: JetStreamBus, nats_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """In the same sentence, at whichever step it goes."""
    asked = Connection.api

    async def api(self: Connection, call: str, *rest: Any, **named: Any) -> Any:
        if call.startswith(step):
            monkeypatch.setattr(Connection, "api", asked)
            await removed(nats_server)
        return await asked(self, call, *rest, **named)

    await fill(bus, 1)
    async with bus.follow([SUBJECT], after=0) as one:
        await take(one, 1)
        monkeypatch.setattr(Connection, "api", api)
        await bus._connection.client.force_reconnect()

        with pytest.raises(BusError, match="the stream CONCH is gone: somebody has removed it; start again"):
            await one.get()

"""The server killed, stopped and restarted under load: every event once, in order."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from conch.bus import shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus, connection
from conch.bus.server import EmbeddedServer
from conch.consumer import ConsumerRuntime, ConsumerSpec, follow
from conch.errors import BusError
from conch_schemas import ActionTaken, CycleReflected, decode, encode, subject_filter, subject_of

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until


pytestmark = pytest.mark.torture

EVENTS = 2000


class Last(BaseModel):
    """A fold's state: what came last, and whether anything came out of its turn."""

    cycle: int = 0
    wrong: tuple[int, ...] = ()


def check(state: Last, action: ActionTaken) -> tuple[Last, CycleReflected]:
    """Count one on, or say what came instead."""
    cycle = action.cycle or 0
    wrong = state.wrong if cycle == state.cycle + 1 else (*state.wrong, cycle)
    said = follow(action, CycleReflected, consumer="check", version="1", reflection="", sleep=0.0, ms=0.0)
    return Last(cycle=cycle, wrong=wrong), said


async def publish_all(bus: JetStreamBus, act: Any, done: list[int]) -> None:
    """In order, 50 at a time on their way; what is acknowledged is in `done`."""
    for first in range(1, EVENTS + 1, 50):
        batch = [act(cycle) for cycle in range(first, first + 50)]
        # Started in order, so they are sent in order; a kill may turn them round, so only whole batches overlap it.
        for event in batch:
            await bus.publish(subject_of(event), encode(event), id=event.id)
            done.append(event.cycle)


async def cycles(bus: JetStreamBus, kind: Any) -> list[int]:
    """The cycles of all events of a kind, in stream order."""
    return [decode(delivery.data).cycle or 0 async for delivery in bus.read([subject_filter(kind)])]


async def kill(server: EmbeddedServer) -> None:
    """kill -9, and up again."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    await server.start()


async def test_ten_kills_lose_nothing_and_double_nothing(
    nats_server: EmbeddedServer, act: MakeAct, until: Until
) -> None:
    """2,000 events, a fold that answers each: all on the stream once, folded once each, in order."""
    draw, done = random.Random(7), []
    async with (
        JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus,
        JetStreamBus(Access(nats_server.url, token=nats_server.token)) as theirs,
        shared_subscription(theirs) as shared_events,
    ):
        spec = ConsumerSpec("check", "1", (ActionTaken,), check, state=Last, initial=Last, emits=(CycleReflected,))
        stop, runtime = asyncio.Event(), ConsumerRuntime(shared_events, spec)
        running = asyncio.create_task(runtime.run(stop))
        publishing = asyncio.create_task(publish_all(bus, act, done))
        for number in range(10):
            await until(lambda want=(number + 1) * EVENTS // 12: len(done) >= want, seconds=60)
            await asyncio.sleep(draw.random() * 0.02)
            await kill(nats_server)
        await publishing
        await until(lambda: runtime.tally.handled >= EVENTS, seconds=60)
        stop.set()
        await running

        assert await cycles(bus, ActionTaken) == list(range(1, EVENTS + 1))
        assert await cycles(bus, CycleReflected) == list(range(1, EVENTS + 1))
        entry = await bus.get("state/check/echo")
        assert entry is not None
        assert b'"state":{"cycle":2000,"wrong":[]}' in entry.value
        assert (runtime.tally.failures, runtime.tally.letters) == (0, 0)


async def test_many_publishers_under_kills_store_each_event_once(nats_server: EmbeddedServer, until: Until) -> None:
    """A full window is on its way when the server dies: each is acknowledged once in the end, and stands once."""
    done: list[int] = []

    async def publish(bus: JetStreamBus, number: int) -> None:
        stored = await bus.publish("conch.v1.echo.goal.set", b"%d" % number, id=str(number))
        done.append(stored.seq)

    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        publishing = asyncio.gather(*(publish(bus, number) for number in range(5000)))
        for want in (200, 1500, 3000, 4500):
            await until(lambda want=want: len(done) >= want, seconds=60)
            await kill(nats_server)
        await publishing
        found = [int(delivery.data) async for delivery in bus.read(["conch.v1.>"])]

    assert sorted(found) == list(range(5000))
    assert sorted(done) == list(range(1, 5001))


async def test_a_server_that_stands_still_is_waited_for(
    nats_server: EmbeddedServer, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP until the client has given the connection up, then SIGCONT: everything arrives once."""
    monkeypatch.setattr(connection, "PING_SECONDS", 0.2)
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await bus.publish("conch.v1.echo.goal.set", b"first", id="first")
        assert nats_server.pid is not None
        async with bus.follow(["conch.v1.>"], after=0) as reader:
            os.kill(nats_server.pid, signal.SIGSTOP)
            publishing = asyncio.gather(
                *(bus.publish("conch.v1.echo.goal.set", b"x" * 100_000, id=str(number)) for number in range(100))
            )
            await until(lambda: not bus.connected, seconds=60)
            os.kill(nats_server.pid, signal.SIGCONT)
            async with asyncio.timeout(30):
                await publishing
                seen: list[int] = []
                while len(seen) < 101:
                    seen += [delivery.seq for delivery in await reader.get()]

    assert seen == list(range(1, 102))


async def test_a_short_stand_is_not_noticed(nats_server: EmbeddedServer) -> None:
    """Stopped and continued before anybody gives up: nothing is tried again."""
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        assert nats_server.pid is not None
        os.kill(nats_server.pid, signal.SIGSTOP)
        publishing = asyncio.ensure_future(bus.publish("conch.v1.echo.goal.set", b"", id="1"))
        asyncio.get_running_loop().call_later(0.2, os.kill, nats_server.pid, signal.SIGCONT)

        stored = await asyncio.wait_for(publishing, 30)

    assert (stored.seq, stored.duplicate) == (1, False)


async def test_a_request_without_a_server_ends_in_time(nats_server: EmbeddedServer) -> None:
    """Asking is bounded, also while there is no connection; reading the stream goes on when there is one again."""
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await nats_server.stop()
        with pytest.raises(BusError):
            async with asyncio.timeout(30):
                await bus.request("conch.ctl.echo.pause", b"", timeout=0.1)
        state = asyncio.ensure_future(bus.state())
        await nats_server.start()
        assert (await asyncio.wait_for(state, 30)).last == 0


async def test_a_complaint_of_the_server_is_no_end(nats_server: EmbeddedServer) -> None:
    """It says -ERR and hangs up: the client comes back."""
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        bus._connection.client._transport.write(b"NONSENSE\r\n")  # type: ignore[union-attr]

        for number in range(50):
            stored = await asyncio.wait_for(bus.publish("conch.v1.echo.goal.set", b"", id=str(number)), 30)
        assert stored.seq == 50

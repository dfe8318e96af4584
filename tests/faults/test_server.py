"""The server ends, is killed or stands still under a load: everything acknowledged is there, once, and is answered."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import OutgoingMessage, shared_subscription
from conch.bus.server import EmbeddedServer
from tests.faults.conftest import either_way
from tests.faults.load import message
from tests.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from conch.bus.jetstream import JetStreamBus
    from tests.conftest import Until
    from tests.faults.conftest import Kill
    from tests.faults.load import Counted, Load


PATIENCE = 60.0
"""Seconds for what takes a few on an idle machine."""

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("quick_pings")]


@either_way
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["restarted", "killed"])
async def test_a_server_that_comes_back_has_lost_nothing(
    how: signal.Signals,
    nats_server: EmbeddedServer,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    kill: Kill,
) -> None:
    """Ended in order or not, its clients come back by themselves, and what they had on their way is stored once."""
    draw = random.Random(how)
    async with load_at(nats_server.url) as load:
        for _ in range(5):
            await asyncio.wait([asyncio.ensure_future(load.recovered())], timeout=draw.random() * 0.05)
            await kill(nats_server, how)
            await load.recovered()

    found = await audit(load)
    assert found.messages > 50
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


async def test_a_server_that_stands_still_is_waited_for(
    nats_server: EmbeddedServer,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
) -> None:
    """SIGSTOP until its clients have given the connection up, then SIGCONT: what it had received and had not read it
    stores now, beside what is sent again: each once."""
    async with load_at(nats_server.url) as load:
        for _ in range(2):
            assert nats_server.pid is not None
            os.kill(nats_server.pid, signal.SIGSTOP)
            try:
                await until(lambda: not load.bus.connected, seconds=60)
            finally:
                os.kill(nats_server.pid, signal.SIGCONT)
            await load.recovered()

    found = await audit(load)
    assert load.repeated > 0
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


async def test_a_server_that_is_away_for_long_is_waited_for(
    nats_server: EmbeddedServer,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
) -> None:
    """Nobody gives up, nothing is refused: publishers wait without an end, and go on."""
    async with load_at(nats_server.url) as load:
        await nats_server.stop()
        await until(lambda: not load.bus.connected)
        before = len(load.acknowledged)
        waiting = asyncio.ensure_future(load.recovered())
        await asyncio.wait([waiting], timeout=1.5)
        assert (waiting.done(), len(load.acknowledged)) == (False, before)
        await nats_server.start()
        await waiting

    found = await audit(load)
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)


async def test_one_tap_that_stands_still_holds_up_no_other(
    nats_server: EmbeddedServer, bus_at: Callable[[str], JetStreamBus], kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that takes nothing keeps nobody waiting; when it goes on it reads by itself what its queue had no room
    for, over a kill of the server too, and has missed and doubled nothing."""
    monkeypatch.setattr("conch.bus.subscription.QUEUE_EVENTS", 100)
    async with (
        bus_at(nats_server.url) as bus,
        bus_at(nats_server.url) as theirs,
        shared_subscription(theirs) as shared_events,
        shared_events.subscribe(None, after=0) as quick,
        shared_events.subscribe(None, after=0) as slow,
    ):
        await bus.publish_many([message("echo", number) for number in range(1, 501)])
        first = [arrived.seq for arrived in await asyncio.wait_for(slow.get(10), 30)]
        seen = await _taken(quick, 500)
        await kill(nats_server)
        await bus.publish_many([message("echo", number) for number in range(501, 1001)])
        seen += await _taken(quick, 500)
        late = first + await _taken(slow, 1000 - len(first))

    assert seen == late == list(range(1, 1001))


async def _taken(subscription: Any, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [arrived.seq for arrived in await subscription.get()]
    return found


class Impatient(EmbeddedServer):
    """A server that hangs up on whoever does not take what it sends within a moment."""

    def _write_config(self) -> None:
        super()._write_config()
        with self._config_file.open("a") as file:
            file.write('write_deadline: "50ms"\nmax_pending: 1MB\n')


async def test_a_reader_that_the_server_hangs_up_on_misses_nothing(
    tmp_path: Path, bus_at: Callable[[str], JetStreamBus], until: Until
) -> None:
    """A slow consumer in the server's sense, cut off again and again: it comes back, and has each event once."""
    server = Impatient(tmp_path / "nats", token="a-token-of-the-tests", strict=False, max_bytes=2**30)
    await server.start()
    found: list[int] = []
    async with bus_at(server.url) as near, Proxy(server.url) as proxy, bus_at(proxy.url) as far:
        await near.publish_many([OutgoingMessage("conch.v1.echo.goal.set", b"x" * 50_000, str(n)) for n in range(300)])
        async with far.follow(["conch.v1.>"], after=0) as reader:
            proxy.down.hold()
            waiting = asyncio.create_task(reader.get())
            await until(lambda: "Slow Consumer" in server.log_file.read_text(), seconds=PATIENCE)
            proxy.down.release()
            found += [delivery.seq for delivery in await waiting]
            async with asyncio.timeout(PATIENCE):
                while len(found) < 300:
                    found += [delivery.seq for delivery in await reader.get()]
    await server.stop()

    assert found == list(range(1, 301))


async def test_a_reader_that_is_cut_off_asks_for_less(
    nats_server: EmbeddedServer, bus_at: Callable[[str], JetStreamBus]
) -> None:
    """All there is at once is more than the network holds: each time it is lost, with the connection. Halved until it
    fits, it comes."""
    found: list[int] = []
    async with (
        bus_at(nats_server.url) as near,
        Proxy(nats_server.url, room=512 * 1024) as proxy,
        bus_at(proxy.url) as far,
    ):
        await near.publish_many([OutgoingMessage("conch.v1.echo.goal.set", b"x" * 50_000, str(n)) for n in range(100)])
        proxy.down.rate = 4_000_000
        async with far.follow(["conch.v1.>"], after=0) as reader, asyncio.timeout(PATIENCE):
            while len(found) < 100:
                found += [delivery.seq for delivery in await reader.get()]

    assert found == list(range(1, 101))
    assert proxy.cuts > 0


async def test_a_reader_that_asks_for_little_still_gets_what_is_large(
    nats_server: EmbeddedServer, proxy: Proxy, bus_at: Callable[[str], JetStreamBus]
) -> None:
    """Cut off so often that what it asks for is less than the next event: it asks for more until that one comes."""
    async with (
        bus_at(nats_server.url) as near,
        bus_at(proxy.url) as far,
        far.follow(["conch.v1.>"], after=0) as reader,
        asyncio.timeout(PATIENCE),
    ):
        for number in range(1, 10):
            proxy.cut()
            await near.publish("conch.v1.echo.goal.set", b"x", id=str(number))
            assert [delivery.seq for delivery in await reader.get()] == [number]
        await near.publish("conch.v1.echo.goal.set", b"x" * 500_000, id="large")
        [large] = await reader.get()

    assert large.seq == 10
    assert len(large.data) == 500_000

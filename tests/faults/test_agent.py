"""The agent on a bus that fails: it says so, acts on nothing that is not stored, and goes on where it was."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conch.bus import Bus, MemoryBus, MemoryJournal, OutgoingMessage, shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.cycle.hosting import publish_watch
from conch.cycle.hosting.host import AgentHost
from conch.tools import Notes, tool
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    ThoughtFormed,
    ThoughtGrounded,
    decode,
    subject_filter,
)
from tests.conftest import TOKEN
from tests.cycle.conftest import Life
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.usefixtures("quick_pings")

STEPS: tuple[type[Event], ...] = (ThoughtFormed, ThoughtGrounded, ActionDecided, ActionTaken, CycleReflected)


class Acting:
    """An agent that does something in every cycle, and how often it did it."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.done: Counter[int] = Counter()

    @property
    def state(self) -> str:
        """What it said of itself last."""
        return self.life.said[-1][0] if self.life.said else ""

    @asynccontextmanager
    async def on(self, bus: Bus) -> AsyncIterator[None]:
        """It lives on this bus until told to stop, when this is left."""
        async with shared_subscription(bus) as shared_events:
            one = self.life.hosted(shared_events, None)
            task = asyncio.create_task(AgentHost(shared_events, [one]).run())
            yield
            one.control.stop()
            await asyncio.wait_for(task, 30)


@pytest.fixture
def acting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Acting]:
    """The agent; what takes long to be stored is told soon."""
    monkeypatch.setattr(publish_watch, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(publish_watch, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(publish_watch, "CALM_SECONDS", 0.5)
    (tmp_path / "workspace").mkdir()
    with Notes(tmp_path / "notes.db") as notes:
        made = Acting(Life(tmp_path / "workspace", notes))

        @tool
        async def work(cycle: int) -> str:
            """Counts."""
            made.done[cycle] += 1
            return "x" * 1000

        made.life.add(work)
        made.life.mind.decides = lambda situation: f"TOOL: work(cycle={situation.cycle})"
        yield made


async def assert_paused(acting: Acting, bus: Bus) -> None:
    """Given the time to act, it does not; it has done nothing without a stored decision."""
    before = acting.done.total()
    await asyncio.sleep(0.3)
    assert acting.done.total() == before
    decided = [decode(found.data).cycle async for found in bus.read([subject_filter(ActionDecided)])]
    assert set(acting.done) <= set(decided)


async def assert_whole(acting: Acting, bus: Bus) -> None:
    """Each cycle has each of its facts once, in order; each act was done once."""
    for kind in STEPS:
        cycles = [decode(found.data).cycle async for found in bus.read([subject_filter(kind)])]
        assert cycles == list(range(len(cycles)))
    assert len(acting.done) == len(cycles)
    assert set(acting.done.values()) == {1}


async def test_a_full_stream_pauses_the_agent(
    acting: Acting,
    nats_server: EmbeddedServer,
    bus_at: Callable[[str], JetStreamBus],
    until: Callable[..., Awaitable[None]],
) -> None:
    """It says that nothing is stored and acts no more; when there is room again it says so and goes on."""
    async with (
        JetStreamBus(Access(nats_server.url, token=TOKEN), max_bytes=150_000) as bus,
        bus_at(nats_server.url) as other,
        acting.on(bus),
    ):
        await until(lambda: acting.state == "bus")
        before, state = acting.done.total(), await other.state()
        await assert_paused(acting, other)
        assert "stored nothing" in acting.life.said[-1][1]

        async with JetStreamBus(Access(nats_server.url, token=TOKEN), max_bytes=2**30):
            await until(lambda: acting.done.total() > before + 5)  # the bound was raised: nothing need go
        assert acting.state == "running"
        assert (await other.state()).last > state.last

    async with bus_at(nats_server.url) as bus:
        await assert_whole(acting, bus)


async def test_room_that_is_made_by_trimming_is_enough(
    acting: Acting,
    nats_server: EmbeddedServer,
    bus_at: Callable[[str], JetStreamBus],
    until: Callable[..., Awaitable[None]],
) -> None:
    """Full again and again, the agent goes on as often as facts are trimmed; no cycle is lost and none done twice."""
    seen: dict[int, list[int | None]] = {}
    async with (
        JetStreamBus(Access(nats_server.url, token=TOKEN), max_bytes=150_000) as bus,
        bus_at(nats_server.url) as other,
        acting.on(bus),
    ):
        for _ in range(3):
            await until(lambda: acting.state == "bus")
            for place, kind in enumerate(STEPS):
                found = [decode(one.data).cycle async for one in other.read([subject_filter(kind)])]
                seen[place] = sorted({*seen.get(place, []), *found})  # type: ignore[type-var]
            await other.trim((await other.state()).last + 1)
            await until(lambda: acting.state == "running")

    assert set(acting.done.values()) == {1}
    assert all(cycles == list(range(len(cycles))) for cycles in seen.values())


async def test_an_agent_that_waits_behind_a_flood_says_so(
    acting: Acting, tmp_path: Path, until: Callable[..., Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program publishes more single events than the disk takes: the agent says that it waits its turn, which
    is no full disk; it goes on by itself, and when the flood is over it says so."""
    monkeypatch.setattr(publish_watch, "SLOW_SECONDS", 0.02)
    monkeypatch.setattr(publish_watch, "SILENCE_SECONDS", 60.0)
    server = EmbeddedServer(tmp_path / "strict", token=TOKEN, strict=True, max_bytes=2**32)
    await server.start()
    access = Access(server.url, token=TOKEN)
    async with JetStreamBus(access, strict=True) as bus, JetStreamBus(access) as other, acting.on(bus):
        await until(lambda: acting.done)

        async def flood() -> None:
            """Thousands always on their way, each for itself."""
            while True:
                events = [
                    OutgoingMessage("conch.v1.flood.goal.set", b"x" * 300, str(uuid.uuid4())) for _ in range(4000)
                ]
                await other.publish_many(events)

        flooding = asyncio.create_task(flood())
        await until(lambda: acting.state == "bus" or flooding.done())
        assert not flooding.done()
        assert "behind hundreds of others" in acting.life.said[-1][1]
        before = acting.done.total()
        await until(lambda: acting.done.total() > before)
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        await until(lambda: acting.state == "running")

    async with JetStreamBus(access) as bus:
        await assert_whole(acting, bus)
    await server.stop()


@pytest.mark.parametrize("fault", ["server", "network"])
async def test_a_bus_that_is_gone_pauses_the_agent(
    fault: str,
    acting: Acting,
    nats_server: EmbeddedServer,
    proxy: Proxy,
    bus_at: Callable[[str], JetStreamBus],
    until: Callable[..., Awaitable[None]],
) -> None:
    """Killed or behind a black hole: the agent does what is decided and stored, nothing beyond, and says what it waits
    for; then it goes on, and no cycle is lost or done twice."""
    async with bus_at(proxy.url) as bus, acting.on(bus):
        for _ in range(3):
            before = acting.done.total()
            await until(lambda before=before: acting.done.total() > before + 3)
            if fault == "server":
                await nats_server.stop()
            else:
                proxy.up.hold()
                proxy.down.hold()
            await until(lambda: acting.state == "bus")
            stands = acting.done.total()
            await asyncio.sleep(0.1)  # time in which it would act
            assert acting.done.total() == stands
            if fault == "server":
                await nats_server.start()
            else:
                proxy.up.release()
                proxy.down.release()
            await until(lambda: acting.state == "running")

    async with bus_at(nats_server.url) as bus:
        await assert_whole(acting, bus)


class LateBus(MemoryBus):
    """A bus that stores a value at once and says so when it is let."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__(journal)
        self.let, self.puts = asyncio.Event(), 0

    async def put(self, key: str, value: bytes, *, revision: int) -> int:
        stored = await super().put(key, value, revision=revision)
        self.puts += 1
        if key.startswith("agent/") and self.puts > 1:
            await self.let.wait()
        return stored


async def test_an_agent_that_is_stopped_while_its_memory_is_written_ends_in_order(
    acting: Acting, until: Callable[..., Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own write, of which it did not wait for the answer, is not taken for another copy's."""
    monkeypatch.setattr("conch.cycle.state.checkpoint.HEARD", 5)
    async with LateBus(acting.life.journal) as bus:
        async with acting.on(bus):
            await until(lambda: bus.puts == 2)
            asyncio.get_running_loop().call_later(0.05, bus.let.set)

        await assert_whole(acting, bus)
        assert await bus.get("agent/echo") is not None

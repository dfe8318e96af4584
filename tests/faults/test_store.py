"""Consumers and store in processes of their own, killed with the server beside them: every score once, and no state
forked. Events come twice and out of order, after the server has forgotten their ids."""

from __future__ import annotations

import asyncio
import random
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus import Bus
from conch.bus.server import EmbeddedServer
from conch.consumer import bind
from conch_schemas import ActionTaken, ExperienceRecorded, NeedsChanged, NoveltyMeasured
from conch_services.needs.consumer import needs
from tests.conftest import TOKEN
from tests.faults.acts import PARTS, SCORERS, Scenes, Stored, act, context, stored, streamed
from tests.faults.consumers import FENCED
from tests.faults.processes import consumers

if TYPE_CHECKING:
    from conch.bus.jetstream import JetStreamBus
    from tests.faults.conftest import Kill


pytestmark = pytest.mark.torture

Until = Callable[..., Awaitable[None]]


@pytest.fixture
async def begin(nats_server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Process]]]:
    """`await begin("needs", …)`: consumers in a process of their own, at work; killed at the end of the test."""
    begun: list[Process] = []

    async def start(*names: str) -> Process:
        begun.append(await consumers(nats_server.url, TOKEN, tmp_path, *names))
        return begun[-1]

    yield start
    for process in begun:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_every_score_is_stored_once_whatever_dies(
    nats_server: EmbeddedServer,
    tmp_path: Path,
    begin: Callable[..., Awaitable[Process]],
    bus_at: Callable[[str], JetStreamBus],
    kill: Kill,
    until: Until,
) -> None:
    """kill -9 of the consumers with the store, of the server, of both: the store's place and its rows are of one
    moment at every death, in the end every act has each of its scores once, and what follows was said once."""
    draw = random.Random(11)
    deaths: list[Stored] = []
    async with bus_at(nats_server.url) as bus:
        scenes = Scenes(bus, tmp_path, seed=12)
        await scenes.begin()
        for number in range(3):
            process = await begin(*SCORERS, "store", "forgetful")
            going_on = asyncio.create_task(scenes.go_on(60))
            await asyncio.wait([going_on], timeout=draw.random() * 0.4)
            if number % 2:
                await kill(nats_server)
                await asyncio.wait([going_on], timeout=draw.random() * 0.4)
            if deaths:
                await until(lambda before=deaths[-1].position: stored(tmp_path).position > before)
            process.kill()
            await process.wait()
            deaths.append(stored(tmp_path))
            await going_on
        process = await begin(*SCORERS, "store", "forgetful")
        await until(lambda: len(stored(tmp_path).complete) == scenes.count, seconds=60)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        stream, last = await streamed(bus), stored(tmp_path)

    for death in deaths:
        assert (death.acts, death.scores) == stream.upto(death.position)
    assert len({death.position for death in deaths}) > 1
    assert len(last.acts) == scenes.count
    assert len(last.scores) == last.rows == PARTS * scenes.count
    assert last.unsaid == 0
    for kind in (NeedsChanged, NoveltyMeasured, ExperienceRecorded):
        assert set(stream.times(kind).values()) == {1}
        assert len({event.action_id for event in stream.of(kind)}) == scenes.count


async def test_a_copy_that_wakes_up_never_forks_the_needs(
    nats_server: EmbeddedServer,
    tmp_path: Path,
    begin: Callable[..., Awaitable[Process]],
    bus_at: Callable[[str], JetStreamBus],
    until: Until,
) -> None:
    """A process that stood still while another took over ends when it goes on; what both said is what one fold over
    the stream says, once an act."""
    async with bus_at(nats_server.url) as bus:
        scenes = Scenes(bus, tmp_path, seed=13)
        await scenes.begin()
        asleep: Process | None = None
        for _ in range(2):
            awake = await begin("needs")
            await scenes.go_on(30)
            await until(lambda: said(bus, scenes.count))
            if asleep is not None:
                asleep.send_signal(signal.SIGCONT)
                await scenes.go_on(30)
                assert await asyncio.wait_for(asleep.wait(), 30) == FENCED
                await until(lambda: said(bus, scenes.count))
            awake.send_signal(signal.SIGSTOP)
            await scenes.go_on(30)  # what it will find when it wakes up
            asleep = awake
        assert asleep is not None
        asleep.send_signal(signal.SIGCONT)
        await until(lambda: said(bus, scenes.count))
        asleep.send_signal(signal.SIGTERM)
        assert await asleep.wait() == 0
        stream = await streamed(bus)

    spec, expected = bind(needs, context(tmp_path)), []
    assert spec.initial is not None
    state = spec.initial()
    for cycle in range(scenes.count):
        state, change = spec.handle(state, act(cycle))
        expected.append((cycle, change.before, change.after))
    changes = stream.of(NeedsChanged)
    assert [(change.cycle, change.before, change.after) for change in changes] == expected
    assert len(stream.of(ActionTaken)) > scenes.count


async def said(bus: Bus, count: int) -> bool:
    """Whether so many changes of needs are on the stream."""
    return len((await streamed(bus)).times(NeedsChanged)) >= count

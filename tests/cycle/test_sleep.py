"""Sleep: an agent with nothing to do asks its mind nothing, and wakes at once at what concerns it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.cycle.hosting.host import AgentHost
from conch_schemas import AgentSlept, AgentWoke
from tests.cycle.conftest import Running
from tests.cycle.virtual_time import run_virtually

if TYPE_CHECKING:
    from tests.cycle.conftest import Life

HOUR = 3600.0
ANSWER = 'TOOL: reply(text="here")'


@pytest.fixture
def sleepy(life: Life) -> Life:
    """An agent of the default settings that rests, and answers messages."""
    life.configured(cycle={"interval": 1.0, "reflect_every": 0, "sleep": {"first": 10.0}})
    life.mind.decides = lambda situation: ANSWER if situation.message else "DO_NOTHING: resting"
    return life


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch, sleepy: Life) -> Callable[[Callable[[Running], Awaitable[Any]]], Any]:
    """`night(test)`: the test with a running agent, in a time that goes on by itself."""

    async def whole(test: Callable[[Running], Awaitable[Any]]) -> Any:
        async with living(sleepy) as running:
            return await test(running)

    return lambda test: run_virtually(monkeypatch, whole(test))


@asynccontextmanager
async def living(life: Life) -> AsyncIterator[Running]:
    """An agent that runs without an end."""
    async with MemoryBus(life.journal) as bus, shared_subscription(bus) as shared_events:
        one = life.hosted(shared_events, None)
        task = asyncio.create_task(AgentHost(shared_events, [one]).run(), name="life")
        while one.control.state == "starting" and not task.done():
            await asyncio.sleep(0)
        running = Running(life, bus, one, task)
        try:
            yield running
        finally:
            one.control.stop()
            await task


async def asleep(running: Running) -> float:
    """Wait until it sleeps; returns the time."""
    while running.one.control.state != "asleep":
        await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time()


async def awake(running: Running) -> float:
    """Wait until it is awake; returns the time."""
    while running.one.control.state == "asleep":
        await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time()


def slept(life: Life) -> list[float]:
    return [fact.seconds for fact in life.facts(AgentSlept)]


def woken(life: Life) -> list[str]:
    return [fact.by for fact in life.facts(AgentWoke)]


def test_an_hour_with_nothing_to_do_asks_the_mind_twice_at_most(night: Any, sleepy: Life) -> None:
    """The sleeps double, and their ends ask nothing: one cycle, of a thought and a decision."""
    night(lambda running: asyncio.sleep(HOUR))

    assert len(sleepy.mind.asked) <= 2
    assert slept(sleepy)[:5] == [10.0, 20.0, 40.0, 80.0, 160.0]
    assert max(slept(sleepy)) <= HOUR
    assert woken(sleepy) == ["stop"]


def test_a_message_wakes_it_at_once(night: Any, sleepy: Life) -> None:
    """It is awake within a second, answers, and sleeps again from ten seconds on."""

    async def test(running: Running) -> float:
        await asyncio.sleep(1000)
        began = asyncio.get_running_loop().time()
        await running.ask("say", {"text": "are you there?"})
        passed = await awake(running) - began
        await asleep(running)
        return passed

    assert night(test) < 1.0
    assert woken(sleepy)[0] == "message"
    assert len(sleepy.mind.asked) == 6
    assert slept(sleepy)[-1] == 10.0

"""An agent's event that is stored while the agent goes on with what does not need it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from conch.bus import MemoryBus, MemoryJournal, shared_subscription
from conch.bus.protocol import Stored
from conch.cycle.control import Control
from conch.cycle.publish import AgentPublisher
from conch.cycle.state.memory import AgentMemory
from conch.cycle.state.recover import RecoveredAgent
from conch_schemas import Cut, ThoughtFormed

UID = "00000000-0000-4000-8000-000000000001"


class _SlowBus(MemoryBus):
    """A bus that stores nothing before it is told to."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__(journal)
        self.sent, self.go = list[str](), asyncio.Event()

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        self.sent.append(id)
        await self.go.wait()
        return await super().publish(subject, data, id=id)


class _Agent:
    """A publisher on that bus, and its memory."""

    def __init__(self, bus: _SlowBus, publisher: AgentPublisher, at: RecoveredAgent) -> None:
        self.bus, self.publisher, self.at = bus, publisher, at
        text = Cut(text="so", length=2, sha256="0" * 64)
        self.thought = publisher.of_cycle(
            ThoughtFormed, 0, thought=text, need="curiosity", pressing={}, model="m", ms=1.0
        )


@pytest.fixture
async def agent() -> AsyncIterator[_Agent]:
    """An agent that has published nothing."""
    async with _SlowBus(MemoryJournal()) as bus, shared_subscription(bus) as shared_events:
        at = RecoveredAgent(AgentMemory(), 0, 0, "e", 0)
        control = Control(lambda kind, text: None)
        yield _Agent(bus, AgentPublisher(shared_events, "echo", UID, at, control, "p"), at)


async def test_an_event_is_on_its_way_before_the_body_begins_and_is_stored_when_it_is_left(agent: _Agent) -> None:
    """Also where the body never waits; the memory has it then, and not before."""
    async with agent.publisher.storing(agent.thought):
        assert agent.bus.sent == [agent.thought.id]
        assert agent.at.memory.thought is None
        agent.bus.go.set()

    assert agent.at.memory.thought == agent.thought
    assert list(agent.bus.journal.ids) == [agent.thought.id]


async def test_a_body_that_fails_leaves_the_event_stored(agent: _Agent) -> None:
    """Its error is raised when the event is stored."""
    agent.bus.go.set()
    with pytest.raises(ZeroDivisionError):
        async with agent.publisher.storing(agent.thought):
            raise ZeroDivisionError

    assert list(agent.bus.journal.ids) == [agent.thought.id]


async def test_cancelled_while_it_waits_nothing_goes_on(agent: _Agent) -> None:
    """The event may be stored or not; no task is left that would store it later."""

    async def run() -> None:
        async with agent.publisher.storing(agent.thought):
            pass

    before = asyncio.all_tasks()
    running = asyncio.create_task(run())
    while not agent.bus.sent:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert asyncio.all_tasks() == before
    assert agent.bus.journal.events == {}

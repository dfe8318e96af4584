"""Subscribing to events with their types, on both buses."""

from __future__ import annotations

import asyncio

import pytest

import conch
from conch.bus import Bus
from conch.errors import BusError
from conch.testing import make_action_taken, make_reward_assigned
from conch_schemas import ActionTaken, Event, RewardAssigned


async def first(subscription: conch.Subscription[Event], number: int) -> list[Event]:
    """The first events of it."""
    found: list[Event] = []
    async for event in subscription:
        found.append(event)
        if len(found) == number:
            break
    return found


async def test_an_entered_subscription_misses_nothing_that_is_published_then(bus: Bus) -> None:
    """Entering is what subscribes, not the first step of the iteration."""
    act = make_action_taken()
    async with conch.subscribe(bus, ActionTaken) as acts:
        await conch.publish(bus, act)

        async with asyncio.timeout(10):
            assert await anext(aiter(acts)) == act


async def test_only_the_named_kinds_of_the_named_agent_come(bus: Bus) -> None:
    """In stream order; without kinds every event comes."""
    mine, others = make_action_taken(agent="bee"), make_action_taken(agent="ant")
    theirs, reward = (make_reward_assigned(act, {"joy": 1.0}) for act in (others, mine))
    for event in (others, theirs, mine, reward):
        await conch.publish(bus, event)

    async with asyncio.timeout(10):
        assert await first(conch.subscribe(bus, RewardAssigned, agent="bee", after=0), 1) == [reward]
        assert await first(conch.subscribe(bus, agent="bee", after=0), 2) == [mine, reward]
        both = conch.subscribe(bus, ActionTaken, RewardAssigned, after=0)
        assert await first(both, 4) == [others, theirs, mine, reward]


async def test_without_a_place_it_begins_at_the_end_of_the_stream(bus: Bus) -> None:
    """What was published before is the past."""
    await conch.publish(bus, make_action_taken(cycle=1))
    async with conch.subscribe(bus, ActionTaken) as acts:
        await conch.publish(bus, make_action_taken(cycle=2))

        async with asyncio.timeout(10):
            assert [event.cycle for event in await first(acts, 1)] == [2]


async def test_what_is_no_event_is_skipped(bus: Bus) -> None:
    """A stranger's bytes on a subject of ours end no subscription."""
    await bus.publish("conch.v1.echo.action.taken", b"no event", id="strange")
    await conch.publish(bus, make_action_taken(cycle=5))

    async with asyncio.timeout(10):
        assert [event.cycle for event in await first(conch.subscribe(bus, ActionTaken, after=0), 1)] == [5]


async def test_an_iteration_goes_on_where_the_one_before_stopped(bus: Bus) -> None:
    """Within one entered subscription each event comes once."""
    async with conch.subscribe(bus, ActionTaken) as acts:
        for cycle in range(3):
            await conch.publish(bus, make_action_taken(cycle=cycle))

        async with asyncio.timeout(10):
            found = [*await first(acts, 1), *await first(acts, 2)]

    assert [event.cycle for event in found] == [0, 1, 2]


async def test_it_can_be_cancelled_while_it_waits(bus: Bus) -> None:
    """`asyncio.timeout` around the loop works."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await first(conch.subscribe(bus, ActionTaken), 1)


async def test_publishing_after_the_bus_was_left_raises() -> None:
    """BusError, as by every way to publish."""
    async with conch.MemoryBus() as bus:
        pass

    with pytest.raises(BusError):
        await conch.publish(bus, make_action_taken())

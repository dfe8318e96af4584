"""Handlers that take several events at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from conch.consumer import ConsumerSpec, follow
from conch_schemas import ActionTaken, ConsumerFailed, CycleReflected, Event, encode, subject_of

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until, World
    from tests.consumer.conftest import Facts, Publish, Run


def reflected(action: ActionTaken) -> Event:
    return follow(action, CycleReflected, consumer="many", version="1", reflection=str(action.cycle), sleep=0.0, ms=0.0)


async def test_a_handler_of_batches_is_given_many_at_once(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """All agents' together, each agent's in order, no more than it asked for; what it returns is published."""
    given: list[list[tuple[str, int]]] = []

    def handle(actions: Sequence[ActionTaken]) -> list[Event]:
        given.append([(action.agent, action.cycle or 0) for action in actions])
        return [reflected(action) for action in actions]

    for cycle in range(1, 11):
        for agent in ("delta", "echo"):
            await publish(bus, act(cycle, agent))
    async with run(bus, ConsumerSpec("many", "1", (ActionTaken,), handle, batch=8)) as runtime:
        await until(lambda: runtime.tally.handled == 20)

    assert max(map(len, given)) <= 8 < 20
    assert len(given) < 20
    assert [cycle for batch in given for agent, cycle in batch if agent == "echo"] == list(range(1, 11))
    assert [event.reflection for event in await facts(bus, CycleReflected, "echo")] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize("waits", [False, True])
async def test_one_bad_event_of_a_batch_is_found_and_set_aside(
    waits: bool, bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """The batch is tried again, then each event by itself: the others are handled, once each."""

    def handle(actions: Sequence[ActionTaken]) -> list[Event]:
        if any(action.cycle == 3 for action in actions):
            raise ValueError("not the third")
        return [reflected(action) for action in actions]

    async def handle_later(actions: Sequence[ActionTaken]) -> list[Event]:
        return handle(actions)

    for cycle in range(1, 6):
        await publish(bus, act(cycle))
    spec = ConsumerSpec("many", "1", (ActionTaken,), handle_later if waits else handle, batch=8, tries=2)
    async with run(bus, spec) as runtime:
        await until(lambda: runtime.tally.handled == 4 and runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert letter.reason == "ValueError: not the third"
    assert [event.reflection for event in await facts(bus, CycleReflected)] == ["1", "2", "4", "5"]


async def test_an_event_that_comes_twice_in_a_batch_is_handled_once(
    world: World, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Its repetition is counted."""
    given: list[int] = []
    async with world.bus() as bus:
        await publish(bus, act(1))
        await world.publish_again(bus, subject_of(act(1)), encode(act(1)))
        await publish(bus, act(2))
        spec = ConsumerSpec(
            "many", "1", (ActionTaken,), lambda actions: given.extend(action.cycle for action in actions), batch=8
        )
        async with run(bus, spec) as runtime:
            await until(lambda: runtime.tally.handled == 2)

    assert given == [1, 2]
    assert runtime.tally.duplicates == 1

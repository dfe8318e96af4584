"""Handlers that are given events side by side, on both buses."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import shared_subscription
from conch.bus.checkpoints import position_key
from conch.consumer import ConsumerRuntime, ConsumerSpec, follow
from conch.consumer.runtime import ownership
from conch_schemas import ActionTaken, ConsumerFailed, CycleReflected, encode, subject_of

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until, World
    from tests.consumer.conftest import Facts, Publish, Run


Handle = Callable[[ActionTaken], Awaitable[Any]]


def reflected(action: ActionTaken) -> CycleReflected:
    return follow(action, CycleReflected, consumer="side", version="1", reflection=str(action.cycle), sleep=0.0, ms=0.0)


def beside(handle: Handle, at_once: int = 8, **parts: Any) -> ConsumerSpec:
    return ConsumerSpec("side", "1", (ActionTaken,), handle, emits=(CycleReflected,), at_once=at_once, **parts)


class Gates:
    """A handler in which the acts of some cycles wait until they are let on."""

    def __init__(self, *cycles: int) -> None:
        self.gates = {cycle: asyncio.Event() for cycle in cycles}
        self.begun: list[int] = []

    async def __call__(self, action: ActionTaken) -> CycleReflected:
        self.begun.append(action.cycle or 0)
        if action.cycle in self.gates:
            await self.gates[action.cycle].wait()
        return reflected(action)


async def place(bus: Any) -> int:
    """Up to where all is acknowledged."""
    entry = await bus.get(position_key("side"))
    return int(json.loads(entry.value)["seq"]) if entry is not None else 0


async def test_what_follows_is_on_the_bus_while_an_earlier_event_is_still_worked_on(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """Of one agent too, also behind more than are in hand at once; acknowledged is only what lies before it."""
    handle = Gates(3)
    async with run(bus, beside(handle, at_once=4)) as runtime:
        for cycle in range(1, 21):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 19)

        assert handle.begun == list(range(1, 21))
        assert {event.cycle for event in await facts(bus, CycleReflected)} == {*range(1, 21)} - {3}
        assert runtime.handled == 2
        await until(lambda: _at(bus, 2))
        handle.gates[3].set()
        await until(lambda: runtime.tally.handled == 20)
        await until(lambda: _at(bus, 20))

    said = [event.cycle for event in await facts(bus, CycleReflected)]
    assert (sorted(said), said[-1]) == (list(range(1, 21)), 3)


async def _at(bus: Any, least: int) -> bool:
    return await place(bus) >= least


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_dies_each_consequence_is_said_once(
    seed: int, world: World, act: MakeAct, publish: Publish, facts: Facts, until: Until
) -> None:
    """Cut off again and again, whatever came before its elders is not said again, and nothing is left out."""
    draw, most = random.Random(seed), 40
    async with world.bus() as bus:
        for cycle in range(1, most + 1):
            await publish(bus, act(cycle))

    async def handle(action: ActionTaken) -> CycleReflected:
        await asyncio.sleep(draw.choice([0, 0, 0.001, 0.01]))
        return reflected(action)

    done = 0
    while done < most:
        async with world.bus() as bus, shared_subscription(bus) as shared_events:
            runtime = ConsumerRuntime(shared_events, beside(handle))
            task = asyncio.create_task(runtime.run(asyncio.Event()))
            await until(partial(_came, runtime, draw.randrange(1, 12), most))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if world.server is None:
                bus.forget_ids()
            done = max(await place(bus), runtime.handled)

    async with world.bus() as bus:
        assert sorted(event.cycle for event in await facts(bus, CycleReflected)) == list(range(1, most + 1))


def _came(runtime: ConsumerRuntime, some: int, end: int) -> bool:
    """Whether it has handled some, or is through."""
    return runtime.tally.handled >= some or runtime.handled >= end


async def test_cut_off_what_overtook_is_handled_again_and_not_said_again(
    world: World, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """The place did not pass the slow one, so that it is not lost; its fellows' ids stand on the stream already."""
    handle = Gates(1)
    async with world.bus() as bus:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        async with shared_subscription(bus) as shared_events:
            cut = ConsumerRuntime(shared_events, beside(handle))
            task = asyncio.create_task(cut.run(asyncio.Event()))
            await until(lambda: cut.tally.handled == 2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        early = {event.id: event.cycle for event in await facts(bus, CycleReflected)}
        assert sorted(early.values()) == [2, 3]
        if world.server is None:
            bus.forget_ids()

        async with run(bus, beside(Gates())) as runtime:
            await until(lambda: runtime.tally.handled == 3)

        said = await facts(bus, CycleReflected)
        assert [event.cycle for event in said][-1] == 1
        assert [event.id for event in said][:2] == list(early)
        assert (len(said), runtime.tally.duplicates) == (3, 2)


async def test_no_more_is_in_hand_than_was_asked_for(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """The rest waits on the stream; one that is done makes room for the next."""
    handle = Gates(*range(1, 8))
    async with run(bus, beside(handle, at_once=3)) as runtime:
        for cycle in range(1, 8):
            await publish(bus, act(cycle))
        await until(lambda: len(handle.begun) == 3)
        handle.gates[2].set()
        await until(lambda: len(handle.begun) == 4)
        assert runtime.tally.handled == 1
        assert handle.begun == [1, 2, 3, 4]
        for gate in handle.gates.values():
            gate.set()
        await until(lambda: runtime.tally.handled == 7)


async def test_one_that_fails_is_tried_again_alone(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """The others go on meanwhile; at last there is a letter about it, and it is acknowledged."""

    async def handle(action: ActionTaken) -> CycleReflected:
        if action.cycle == 1:
            raise ValueError("not the first")
        return reflected(action)

    async with run(bus, beside(handle, tries=3)) as runtime:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 2 and runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert (letter.letter_seq, letter.tries, letter.reason) == (1, 3, "ValueError: not the first")
    assert {event.cycle for event in await facts(bus, CycleReflected)} == {2, 3}
    assert await place(bus) >= 3


async def test_events_that_fail_at_the_same_moment_have_each_its_own_reason(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead letter waits for the check of the position; another event that fails meanwhile does not change it."""
    monkeypatch.setattr(ownership, "SURE_SECONDS", -1.0)
    begun: list[int] = []
    together = asyncio.Event()

    async def handle(action: ActionTaken) -> None:
        begun.append(action.cycle or 0)
        await together.wait()
        raise ValueError(f"cycle {action.cycle}")

    async with run(bus, beside(handle, tries=1)):
        for cycle in range(1, 5):
            await publish(bus, act(cycle))
        await until(lambda: len(begun) == 4)
        together.set()

    reasons = {letter.letter_seq: letter.reason for letter in await facts(bus, ConsumerFailed)}
    assert reasons == {cycle: f"ValueError: cycle {cycle}" for cycle in range(1, 5)}


async def test_an_event_that_comes_again_while_it_is_in_hand_is_handled_once(
    world: World, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Its repetition is counted."""
    handle = Gates(1)
    async with world.bus() as bus, run(bus, beside(handle)) as runtime:
        await publish(bus, act(1))
        await world.publish_again(bus, subject_of(act(1)), encode(act(1)))
        await publish(bus, act(2))
        await until(lambda: runtime.tally.handled == 1)
        handle.gates[1].set()
        await until(lambda: runtime.tally.handled == 2)

    assert (handle.begun, runtime.tally.duplicates) == ([1, 2], 1)


@pytest.mark.parametrize("waiting", [0, 1])
async def test_shutting_down_with_full_hands_finishes_those_and_takes_no_more(
    waiting: int, bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Whether more waits on the stream or nothing does; its place is behind what was in hand."""
    handle = Gates(1, 2)
    async with run(bus, beside(handle, at_once=2)):
        for cycle in range(1, 3 + waiting):
            await publish(bus, act(cycle))
        await until(lambda: len(handle.begun) == 2)
        for gate in handle.gates.values():
            asyncio.get_running_loop().call_later(0.02, gate.set)

    assert len(handle.begun) == 2
    reached = await place(bus)
    assert reached == 2 if waiting else reached >= 2


async def test_one_that_lost_its_place_meanwhile_says_nothing(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What took so long that another copy has taken over is said by that one alone."""
    handle = Gates(1)
    async with shared_subscription(bus) as shared_events:
        first = asyncio.create_task(ConsumerRuntime(shared_events, beside(handle)).run(asyncio.Event()))
        await publish(bus, act(1))
        await until(lambda: handle.begun == [1])
        late = Gates(1)
        async with run(bus, beside(late)):
            await until(lambda: late.begun == [1])
            monkeypatch.setattr(ownership, "SURE_SECONDS", -1.0)
            handle.gates[1].set()
            await asyncio.wait([first])
            assert await facts(bus, CycleReflected) == []
            late.gates[1].set()

    assert "taken over" in str(first.exception())
    assert [event.cycle for event in await facts(bus, CycleReflected)] == [1]

"""What the runtime promises a consumer, on both buses: order, what is in hand, how it ends."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from conch.bus import MemoryBus
from conch.bus.checkpoints import position_key
from conch.consumer import ConsumerSpec
from conch.consumer.runtime import loop as run_module
from conch.consumer.runtime import snapshots
from conch.consumer.runtime.snapshots import pause_after
from conch_schemas import ActionTaken, CycleReflected, encode, subject_of, trace_of, traceparent_of
from tests.consumer.conftest import Alone, seen

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, MakeFold, Publish, Run


async def test_a_fact_follows_from_each_fact(
    bus: Bus, act: MakeAct, fold: MakeFold, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """Each event is handled once, what follows is published, state and position are written at the end."""
    async with run(bus, fold()) as runtime:
        for cycle in range(1, 6):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 5)

    said = await facts(bus, CycleReflected)
    position = await bus.get(position_key("count"))
    assert [event.reflection for event in said] == ["1", "2", "3", "4", "5"]
    assert [event.cycle for event in said] == [1, 2, 3, 4, 5]
    assert await seen(bus) == [1, 2, 3, 4, 5]
    assert json.loads(position.value)["seq"] >= 5
    assert runtime.tally.duplicates == runtime.tally.letters == runtime.tally.failures == 0


async def test_one_agents_events_keep_their_order_while_others_go_on(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """The first agent's handler waits: its second event waits behind it, another agent's is handled."""
    release, order = asyncio.Event(), []

    async def handle(action: ActionTaken) -> None:
        if (action.agent, action.cycle) == ("echo", 1):
            await release.wait()
        order.append((action.agent, action.cycle))

    spec = ConsumerSpec("slow", "1", (ActionTaken,), handle)
    async with run(bus, spec):
        for agent, cycle in (("echo", 1), ("echo", 2), ("delta", 1), ("delta", 2)):
            await publish(bus, act(cycle, agent))
        await until(lambda: len(order) == 2)
        assert order == [("delta", 1), ("delta", 2)]
        release.set()
        await until(lambda: len(order) == 4)

    assert order[2:] == [("echo", 1), ("echo", 2)]


async def test_what_is_logged_of_a_failing_event_names_its_act(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Agent, action and trace, in the handler as in the lines about it; of the next event its own."""
    bound_to: list[tuple[Any, ...]] = []

    async def handle(action: ActionTaken) -> None:
        bound = structlog.contextvars.get_contextvars()
        bound_to.append((bound["agent_id"], bound["action_id"], bound["trace_id"]))
        if action.cycle == 1 and len(bound_to) == 1:
            raise ValueError

    plain, second = act(1), act(2, agent="delta")
    first = plain.model_copy(update={"traceparent": traceparent_of(plain.action_id, plain.id)})
    async with run(bus, ConsumerSpec("told", "1", (ActionTaken,), handle)):
        await publish(bus, first)
        await until(lambda: len(bound_to) == 2)
        await publish(bus, second)
        await until(lambda: len(bound_to) == 3)

    assert bound_to[:2] == [("echo", first.action_id, trace_of(first.action_id))] * 2
    assert bound_to[2] == ("delta", second.action_id, None)


async def test_shutting_down_finishes_what_is_in_hand(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Taken events are handled, and the place is written, before `run` returns; nothing is taken any more."""
    release, handled = asyncio.Event(), []

    async def handle(action: ActionTaken) -> None:
        await release.wait()
        handled.append(action.cycle)

    async with run(bus, ConsumerSpec("slow", "1", (ActionTaken,), handle)) as runtime:
        for cycle in range(1, 6):
            await publish(bus, act(cycle))
        await until(lambda: runtime._dealt >= 5)
        asyncio.get_running_loop().call_later(0.02, release.set)

    assert handled == [1, 2, 3, 4, 5]
    assert json.loads((await bus.get(position_key("slow"))).value)["seq"] == 5


async def test_what_is_in_hand_is_bounded(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a handler that waits, no more than the bound is taken from the stream."""
    monkeypatch.setattr(run_module, "ENQUEUED", 4)
    release = asyncio.Event()

    async def handle(action: ActionTaken) -> None:
        await release.wait()

    async with run(bus, ConsumerSpec("slow", "1", (ActionTaken,), handle)) as runtime:
        for cycle in range(1, 21):
            await publish(bus, act(cycle))
        await until(lambda: runtime._queues.enqueued == 4)
        await publish(bus, act(21))
        assert runtime._queues.enqueued == 4
        release.set()
        await until(lambda: runtime.tally.handled == 21)


async def test_a_consumer_that_lingers_handles_what_came_meanwhile_too(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """In the same turn, so that what follows is published in one piece."""
    seen: list[int] = []
    spec = ConsumerSpec("slow", "1", (ActionTaken,), lambda action: seen.append(action.cycle), linger=1.0)
    async with run(bus, spec) as runtime:
        await publish(bus, act(1))
        await until(lambda: seen and runtime._subscription.level)
        await publish(bus, act(2))
        await until(lambda: runtime._subscription.given == 2)
        await publish(bus, act(3))
        await until(lambda: len(seen) > 1)
        assert seen == [1, 2, 3]


async def test_a_consumer_that_lingers_lets_others_go_first(until: Until, act: MakeAct) -> None:
    """What comes waits for `linger`, and then is handled all the same, in order."""
    seen: list[int] = []
    spec = ConsumerSpec("slow", "1", (ActionTaken,), lambda action: seen.append(action.cycle), linger=0.05)
    async with MemoryBus() as bus:
        stop = asyncio.Event()
        running = asyncio.create_task(Alone(bus, spec).run(stop))
        began = asyncio.get_running_loop().time()
        for cycle in (1, 2):
            await bus.publish(subject_of(act(cycle)), encode(act(cycle)), id=str(cycle))
        await until(lambda: seen == [1, 2])

        assert asyncio.get_running_loop().time() - began >= 0.05
        stop.set()
        await running


@pytest.mark.parametrize(
    ("took", "states", "pause"), [(0.001, 10, 1.0), (0.001, 100, 5.0), (0.2, 0, 4.0), (0.1, 10_000, 30.0)]
)
def test_many_states_are_written_more_seldom(
    took: float, states: int, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty states a second, a twentieth of the time, and each half-minute all the same."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_SECONDS", 1.0)
    assert pause_after(took, states) == pytest.approx(pause)

"""Two copies of a consumer: one of them works, the other stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import shared_subscription
from conch.bus.checkpoints import state_key
from conch.consumer.group.membership import joined
from conch.consumer.group.position import holder_of, take_position
from conch.consumer.group.shared import SharedConsumer
from conch.consumer.runtime import ownership, snapshots
from conch.consumer.runtime.snapshots import Snapshots
from conch.errors import FencedError
from conch_schemas import CycleReflected
from tests.consumer.conftest import Alone, has, seen

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until, World
    from tests.consumer.conftest import Facts, MakeFold, Publish, Run


async def test_two_copies_of_a_fold_never_fork_its_state(
    world: World, act: MakeAct, fold: MakeFold, publish: Publish, facts: Facts, until: Until
) -> None:
    """The copy that was taken over stops with FencedError; the state is that of one."""
    async with world.bus() as bus:
        first = asyncio.create_task(Alone(bus, fold()).run(asyncio.Event()))
        for cycle in range(1, 11):
            await publish(bus, act(cycle))
        await until(lambda: has(bus, 5))
        stop, runtime = asyncio.Event(), Alone(bus, fold())
        second = asyncio.create_task(runtime.run(stop))
        await until(lambda: runtime.handled >= 10)
        for cycle in range(11, 21):
            await publish(bus, act(cycle))
        with pytest.raises(FencedError):
            async with asyncio.timeout(30):
                await first
        await until(lambda: has(bus, 20))
        stop.set()
        await second

        assert await seen(bus) == list(range(1, 21))
        assert [int(event.reflection) for event in await facts(bus, CycleReflected)] == list(range(1, 21))


async def test_a_copy_that_took_over_goes_on_from_the_last_write_of_the_other(
    bus: Bus,
    act: MakeAct,
    fold: MakeFold,
    run: Run,
    publish: Publish,
    facts: Facts,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other was just writing its states: this one begins again from those, and is not fenced itself."""
    async with run(bus, fold()) as first:
        await publish(bus, act(1))
        await until(lambda: first.tally.handled == 1)
    second = Alone(bus, fold())
    monkeypatch.setattr(second._snapshots, "write", _meanwhile(bus, second._snapshots.write))
    stop = asyncio.Event()
    task = asyncio.create_task(second.run(stop))
    await publish(bus, act(2))
    await until(lambda: has(bus, 2))
    stop.set()
    await task

    assert await seen(bus) == [1, 2]
    assert [event.reflection for event in await facts(bus, CycleReflected)] == ["1", "2"]


async def test_a_shared_consumer_that_was_overtaken_takes_its_place_anew_and_passes_over_nothing(
    bus: Bus,
    act: MakeAct,
    fold: MakeFold,
    run: Run,
    publish: Publish,
    facts: Facts,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With two events handled that are in no written state: they are handled again from the state that is there."""
    async with run(bus, fold()) as first:
        await publish(bus, act(1))
        await until(lambda: first.tally.handled == 1)
    write, done = Snapshots.write, False

    async def overtaken(written: Snapshots) -> int:
        nonlocal done
        if not done and written._context.tally.handled < 2:
            return 0
        if not done:
            done, entry = True, await bus.get(state_key("count", "echo"))
            await bus.put(state_key("count", "echo"), entry.value, revision=entry.revision)
        return await write(written)

    monkeypatch.setattr(Snapshots, "write", overtaken)
    stop = asyncio.Event()
    async with shared_subscription(bus) as shared_events, joined(bus, ["count"], "one") as members:
        task = asyncio.create_task(SharedConsumer(fold(), members).run(shared_events, stop))
        await publish(bus, act(2))
        await publish(bus, act(3))
        await until(lambda: done)
        await publish(bus, act(4))
        await until(lambda: has(bus, 4), 20)
        stop.set()
        await task

    assert await seen(bus) == [1, 2, 3, 4]
    assert [event.reflection for event in await facts(bus, CycleReflected)] == ["1", "2", "3", "4"]


def _meanwhile(bus: Any, call: Any) -> Any:
    """Between its reading and its first write, once, the other copy writes its state again."""
    written = False

    async def called(*arguments: Any) -> Any:
        nonlocal written
        if not written:
            written, entry = True, await bus.get(state_key("count", "echo"))
            await bus.put(state_key("count", "echo"), entry.value, revision=entry.revision)
        return await call(*arguments)

    return called


async def test_a_write_of_another_copy_stops_this_one(
    bus: Bus, act: MakeAct, fold: MakeFold, publish: Publish, until: Until
) -> None:
    """The bucket's compare-and-set is the fence, whoever reads."""
    task = asyncio.create_task(Alone(bus, fold()).run(asyncio.Event()))
    await publish(bus, act(1))
    await until(lambda: has(bus, 1))
    taken = await take_position(bus, fold())
    await publish(bus, act(2))

    with pytest.raises(FencedError):
        async with asyncio.timeout(30):
            await task
    assert await taken.is_held()


async def test_a_worker_that_stood_still_says_nothing_once_its_place_is_taken(
    bus: Bus,
    act: MakeAct,
    fold: MakeFold,
    publish: Publish,
    facts: Facts,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looks before it says anything, when it has not been sure of its place for a while."""
    monkeypatch.setattr(ownership, "SURE_SECONDS", -1.0)
    monkeypatch.setattr(snapshots, "SNAPSHOT_SECONDS", 3600.0)
    task = asyncio.create_task(Alone(bus, fold()).run(asyncio.Event()))
    await publish(bus, act(1))
    await until(lambda: holder_of(bus, "count", "echo"))
    await take_position(bus, fold())
    await publish(bus, act(2))

    with pytest.raises(FencedError):
        async with asyncio.timeout(30):
            await task
    assert [event.reflection for event in await facts(bus, CycleReflected)] in ([], ["1"])

"""A fold's state and place: each event counts once, whatever dies; what cannot be read is not guessed."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

from conch.bus import MemoryBus
from conch.bus.checkpoints import position_key, state_key
from conch.bus.jetstream import publisher
from conch.consumer import ConsumerRuntime
from conch.consumer.runtime.state import reset
from conch.errors import ContractError
from conch_schemas import CycleReflected, encode, subject_of
from tests.consumer.conftest import Alone, seen

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until, World
    from tests.consumer.conftest import Facts, MakeFold, Pace, Publish, Run


async def test_a_repetition_that_the_server_has_forgotten_is_counted_not_applied(
    world: World, act: MakeAct, fold: MakeFold, pace: Pace, run: Run, publish: Publish, until: Until
) -> None:
    """The same event stands twice on the stream; the fold takes it once, also when a restart lies between."""
    async with world.bus() as bus:
        async with run(bus, fold(pace())) as runtime:
            await publish(bus, act(1))
            await world.publish_again(bus, subject_of(act(1)), encode(act(1)))
            await until(lambda: runtime.tally.duplicates == 1)
        async with run(bus, fold(pace())) as runtime:
            await world.publish_again(bus, subject_of(act(1)), encode(act(1)))
            await until(lambda: runtime.tally.duplicates == 1)

        assert await seen(bus) == [1]


async def test_a_consequence_that_the_server_has_forgotten_is_not_published_twice(
    world: World,
    act: MakeAct,
    fold: MakeFold,
    pace: Pace,
    run: Run,
    publish: Publish,
    facts: Facts,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Position and state are lost, everything is handled again: what stands on the stream is found there."""
    async with world.bus() as bus:
        async with run(bus, fold(pace())) as runtime:
            for cycle in range(1, 4):
                await publish(bus, act(cycle))
            await until(lambda: runtime.tally.handled == 3)
        await reset(bus, "count")
        if world.server is None:
            bus.forget_ids()
        else:
            monkeypatch.setattr(publisher, "message_id", lambda _: str(uuid.uuid4()).encode())  # known to nobody
        async with run(bus, fold(pace())) as runtime:
            await until(lambda: runtime.tally.handled == 3)

        assert runtime.tally.duplicates == 3
        assert [event.reflection for event in await facts(bus, CycleReflected)] == ["1", "2", "3"]
        assert await seen(bus) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_dies_the_fold_ends_as_if_nothing_had(
    seed: int, world: World, act: MakeAct, fold: MakeFold, pace: Pace, publish: Publish, facts: Facts, until: Until
) -> None:
    """Cut off again and again at any moment, it takes each event once, in order, and says each consequence once."""
    draw, agents, done = random.Random(seed), ("echo", "delta", "gamma"), 0
    async with world.bus() as bus:
        for cycle in range(1, 41):
            for agent in agents:
                await publish(bus, act(cycle, agent))
    while done < 120:
        async with world.bus() as bus:
            runtime = Alone(bus, fold(pace()))
            task = asyncio.create_task(runtime.run(asyncio.Event()))
            want = min(done + draw.randrange(5, 40), 120)
            await until(partial(_handled, runtime, want))
            await asyncio.sleep(draw.choice([0, 0.001, 0.004, 0.008]))  # cut anywhere, snapshots included
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            position = await bus.get(position_key("count"))
            done = json.loads(position.value)["seq"] if position is not None else 0

    async with world.bus() as bus:
        for agent in agents:
            said = await facts(bus, CycleReflected, agent)
            assert [int(event.reflection) for event in said] == list(range(1, 41))
            assert await seen(bus, agent) == list(range(1, 41))


def _handled(runtime: ConsumerRuntime, count: int) -> bool:
    return runtime.handled >= count


@pytest.mark.parametrize("bad", [b"garbage", b"[]", b'{"seq":1,"epoch":"x","state":{"cycles":"no"}}'])
async def test_a_state_that_cannot_be_read_is_not_guessed(
    bad: bytes, bus: Bus, act: MakeAct, fold: MakeFold, publish: Publish
) -> None:
    """The consumer ends with a sentence that says what to do; the state stays as it is."""
    await bus.put(state_key("count", "echo"), bad, revision=0)
    await publish(bus, act(1))

    with pytest.raises(ContractError, match="consumer reset count"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())
    entry = await bus.get(state_key("count", "echo"))
    assert entry.value == bad


@pytest.mark.parametrize("bad", [b"garbage", b"[]", b'{"seq":"many","epoch":"x"}'])
async def test_a_position_that_cannot_be_read_is_not_guessed(bad: bytes, bus: Bus, fold: MakeFold) -> None:
    """The same for the position."""
    await bus.put(position_key("count"), bad, revision=0)

    with pytest.raises(ContractError, match="consumer reset count"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())


async def test_a_reset_consumer_begins_at_the_start(
    bus: Bus, act: MakeAct, fold: MakeFold, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """With the state it was born with; what it said before is not said twice."""
    async with run(bus, fold()) as runtime:
        for cycle in range(1, 4):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 3)

    await reset(bus, "count")
    async with run(bus, fold()) as runtime:
        await until(lambda: runtime.tally.handled == 3)

    assert await seen(bus) == [1, 2, 3]
    assert len(await facts(bus, CycleReflected)) == 3


async def test_a_snapshot_says_of_no_event_that_it_is_handled_before_its_state_is_written(
    act: MakeAct, fold: MakeFold, publish: Publish, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An act is handled while the states are being written, then everything dies: it is folded the next time."""

    async with MemoryBus() as bus:
        real, held, go = bus.put, asyncio.Event(), asyncio.Event()

        async def put(key: str, value: bytes, *, revision: int) -> int:
            revision = await real(key, value, revision=revision)
            if key == state_key("count", "delta"):
                held.set()
                await go.wait()
            return revision

        monkeypatch.setattr(bus, "put", put)
        runtime = Alone(bus, fold())
        await publish(bus, act(1, "delta"))
        await publish(bus, act(1))
        task = asyncio.create_task(runtime.run(asyncio.Event()))
        await held.wait()
        await publish(bus, act(2, "delta"))
        await until(lambda: runtime.tally.handled == 3)
        go.set()
        await until(lambda: position_key("count") in bus.journal.bucket)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        monkeypatch.setattr(bus, "put", real)

        stop, again = asyncio.Event(), Alone(bus, fold())
        task = asyncio.create_task(again.run(stop))
        await until(lambda: again.handled >= 3)
        stop.set()
        await task
        assert await seen(bus, "delta") == [1, 2]


@pytest.mark.parametrize(
    "bad",
    [
        b'{"seq":1,"epoch":"E","recent":[],"shares":{"0":5}}',
        b'{"seq":-4,"epoch":"E","recent":[]}',
        b'{"seq":Infinity,"epoch":"E","recent":[]}',
        b"[" * 100_000,
    ],
)
async def test_a_place_that_is_none_is_one_sentence(bad: bytes, bus: Bus, fold: MakeFold) -> None:
    """Whatever is wrong with it: the consumer is named, and what to do."""
    epoch = (await bus.state()).epoch
    await bus.put(position_key("count"), bad.replace(b'"E"', json.dumps(epoch).encode()), revision=0)

    with pytest.raises(ContractError, match="consumer reset count"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())

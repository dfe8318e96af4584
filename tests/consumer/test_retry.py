"""Letters that are retried: a fold is rebuilt, a consumer without state handles the event itself."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from conch.consumer import ConsumerSpec, follow
from conch.consumer.group.position import holder_of
from conch.consumer.runtime.dead_letters import dead_letter_named, open_dead_letters, settle
from conch.consumer.runtime.loop import control_of
from conch.errors import BusError, ConchError
from conch_schemas import ActionTaken, ConsumerFailed, CycleReflected, Event
from tests.consumer.conftest import has, seen

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, Handle, MakeFold, Pace, Publish, Run


async def test_a_fold_is_rebuilt_when_its_letter_is_retried(
    bus: Bus,
    act: MakeAct,
    fold: MakeFold,
    pace: Pace,
    counting: Handle,
    run: Run,
    publish: Publish,
    facts: Facts,
    until: Until,
) -> None:
    """The event takes its place among the others, and what was published then is not published twice."""
    bad = {2, 4}

    def handle(state: Any, action: ActionTaken) -> Any:
        if action.cycle in bad:
            raise ValueError("bad")
        return counting(state, action)

    async with run(bus, fold(pace(handle))) as runtime:
        for cycle in range(1, 6):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 3)

    async with run(bus, fold(pace(handle))):
        await until(lambda: holder_of(bus, "count", "echo"))
        subject = control_of("count", await holder_of(bus, "count", "echo"))
        await until(lambda: _serves(bus, subject))
        refused = json.loads(await bus.request(subject, b'{"seq":2}', timeout=5))
        assert "ValueError: bad" in refused["error"]
        bad.discard(2)
        assert json.loads(await bus.request(subject, b'{"seq":2}', timeout=5)) == {"ok": True}
        assert await seen(bus) == [1, 2, 3, 5]
        bad.discard(4)
        assert json.loads(await bus.request(subject, b'{"seq":4}', timeout=5)) == {"ok": True}
        assert await seen(bus) == [1, 2, 3, 4, 5]
        await publish(bus, act(6))
        await until(lambda: has(bus, 6))

    said = await facts(bus, CycleReflected)
    assert await seen(bus) == [1, 2, 3, 4, 5, 6]
    assert sorted(event.cycle for event in said) == [1, 2, 3, 4, 5, 6]
    assert len(await facts(bus, ConsumerFailed)) == 2


async def test_letters_that_are_retried_one_after_the_other_keep_each_others_effect(
    bus: Bus, act: MakeAct, fold: MakeFold, pace: Pace, counting: Handle, run: Run, publish: Publish, until: Until
) -> None:
    """Rebuilding from the first brings the state before the second up to date."""
    bad = {2, 4}

    def handle(state: Any, action: ActionTaken) -> Any:
        if action.cycle in bad:
            raise ValueError("bad")
        return counting(state, action)

    async with run(bus, fold(pace(handle))) as runtime:
        for cycle in range(1, 6):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 3)
        bad.clear()
        for seq in (2, 4, 2):
            await runtime.retry(seq)
            assert await seen(bus) == [1, 2, 3, 4, 5]


async def _serves(bus: Any, subject: str) -> bool:
    try:
        await bus.request(subject, b'{"seq":99}', timeout=1)
    except BusError:
        return False
    return True


async def test_a_retry_during_work_harms_nothing(
    bus: Bus,
    act: MakeAct,
    fold: MakeFold,
    pace: Pace,
    counting: Handle,
    run: Run,
    publish: Publish,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rebuilt again and again while events come and snapshots are written, the fold ends right and is not fenced."""
    bad = {1}

    def handle(state: Any, action: ActionTaken) -> Any:
        if action.cycle in bad:
            raise ValueError("bad")
        return counting(state, action)

    real = bus.put

    async def slow(key: str, value: bytes, *, revision: int) -> int:
        await asyncio.sleep(0.002)
        return int(await real(key, value, revision=revision))

    monkeypatch.setattr(bus, "put", slow)
    async with run(bus, fold(pace(handle))) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 1)
        bad.clear()
        for cycle in range(2, 30):
            await publish(bus, act(cycle))
            if cycle % 3 == 0:
                await runtime.retry(1)
        await until(lambda: has(bus, 29))

    assert await seen(bus) == list(range(1, 30))


async def test_a_consumer_without_state_retries_the_event_itself(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """Its consequence is published then."""
    bad = True

    def handle(action: ActionTaken) -> Event:
        if bad:
            raise ValueError("bad")
        return follow(action, CycleReflected, consumer="plain", version="1", reflection="now", sleep=0.0, ms=0.0)

    async with run(bus, ConsumerSpec("plain", "1", (ActionTaken,), handle, tries=1)) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 1)
        bad = False
        await runtime.retry(1)

    assert [event.reflection for event in await facts(bus, CycleReflected)] == ["now"]


async def test_letters_are_open_until_they_are_settled(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Settling twice changes nothing; a letter is found by the beginning of its id."""

    def handle(action: ActionTaken) -> None:
        raise ValueError("bad")

    async with run(bus, ConsumerSpec("plain", "1", (ActionTaken,), handle, tries=1)) as runtime:
        await publish(bus, act(1))
        await publish(bus, act(2))
        await until(lambda: runtime.tally.letters == 2)

    first, second = [letter async for letter in open_dead_letters(bus)]
    assert await dead_letter_named(bus, first.id[:13]) == first
    await settle(bus, first, "dropped")
    await settle(bus, first, "retried")
    assert [letter.id async for letter in open_dead_letters(bus)] == [second.id]
    assert len([letter async for letter in open_dead_letters(bus, settled=True)]) == 2
    with pytest.raises(ConchError, match="0 dead letters"):
        await dead_letter_named(bus, first.id)


async def test_a_retried_letter_takes_nothing_from_the_state(
    bus: Bus, act: MakeAct, fold: MakeFold, counting: Handle, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """What fails for a moment on the way is tried again; what fails to the last leaves the state as it was."""
    failing, once = {2}, {4: 1}

    def handle(state: Any, action: ActionTaken) -> Any:
        if action.cycle in failing or once.pop(action.cycle, 0):
            raise ValueError("bad")
        return counting(state, action)

    async with run(bus, fold(handle)) as runtime:
        for cycle in range(1, 7):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 5)
        failing.discard(2)
        failing.add(5)
        with pytest.raises(ValueError, match="bad"):
            await runtime.retry(2)
        failing.discard(5)
        once[4] = 1
        await runtime.retry(2)

    assert await seen(bus) == [1, 2, 3, 4, 5, 6]
    assert len(await facts(bus, ConsumerFailed)) == 1

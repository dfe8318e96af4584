"""What the runtime promises a consumer, on both buses."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from functools import partial
from typing import Any

import pytest
import structlog

from conch.bus import Feed, MemoryBus, feeding
from conch.bus.jetstream import publisher
from conch.consumer import ConsumerRuntime, ConsumerSpec, follow
from conch.consumer import run as run_module
from conch.consumer.letters import letter_named, open_letters, settle
from conch.consumer.place import holder_of, position_key, take_place
from conch.consumer.run import control_of
from conch.consumer.snapshot import reset, state_key
from conch.errors import BusError, ConchError, ContractError, FencedError
from conch_schemas import (
    ActionTaken,
    ConsumerFailed,
    CycleReflected,
    Event,
    encode,
    subject_of,
    trace_of,
    traceparent_of,
)


class Alone(ConsumerRuntime):
    """A runtime with a feed of its own."""

    def __init__(self, bus: Any, spec: ConsumerSpec) -> None:
        super().__init__(Feed(bus, 0), spec)

    async def run(self, stop: asyncio.Event) -> None:
        async with feeding(self._bus) as self._feed:
            await super().run(stop)


async def seen(bus: Any, agent: str = "echo") -> list[int]:
    """What stands in the fold's snapshot."""
    entry = await bus.get(state_key("count", agent))
    return list(json.loads(entry.value)["state"]["cycles"]) if entry is not None and entry.value else []


async def test_a_fact_follows_from_each_fact(
    bus: Any, act: Any, fold: Any, run: Any, publish: Any, facts: Any, until: Any
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
    bus: Any, act: Any, run: Any, publish: Any, until: Any
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
    bus: Any, act: Any, run: Any, publish: Any, until: Any
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


async def test_a_failing_event_is_tried_again_and_the_agents_next_one_waits(
    bus: Any, act: Any, run: Any, publish: Any, until: Any
) -> None:
    """Back-off holds up that agent alone; then it succeeds and everything goes on."""
    tried: list[tuple[str, int]] = []

    def handle(action: ActionTaken) -> None:
        tried.append((action.agent, action.cycle or 0))
        if action.agent == "echo" and tried.count(("echo", 1)) < 3:
            raise RuntimeError("not yet")

    spec = ConsumerSpec("flaky", "1", (ActionTaken,), handle)
    async with run(bus, spec, retry=0.1) as runtime:
        for agent, cycle in (("echo", 1), ("echo", 2), ("delta", 1)):
            await publish(bus, act(cycle, agent))
        await until(lambda: runtime.tally.handled == 3)

    assert tried == [("echo", 1), ("delta", 1), ("echo", 1), ("echo", 1), ("echo", 2)]
    assert (runtime.tally.failures, runtime.tally.letters) == (2, 0)


async def test_after_the_last_try_there_is_a_letter_and_the_consumer_goes_on(
    bus: Any, act: Any, fold: Any, counting: Any, run: Any, publish: Any, facts: Any, until: Any
) -> None:
    """The letter says which event, by whom, why, after how many tries, and holds its bytes."""

    def handle(state: Any, action: ActionTaken) -> Any:
        if action.cycle == 2:
            raise ValueError("two\x1b[31m is bad")
        return counting(state, action)

    async with run(bus, fold(handle)) as runtime:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 2)

    [letter] = await facts(bus, ConsumerFailed)
    assert (letter.consumer, letter.version, letter.agent, letter.tries) == ("count", "1", "echo", 3)
    assert (letter.letter_subject, letter.letter_seq) == (subject_of(act(2)), 2)
    assert letter.reason == "ValueError: two�[31m is bad"
    assert letter.letter
    assert await seen(bus) == [1, 3]
    assert (runtime.tally.failures, runtime.tally.letters) == (3, 1)


@pytest.mark.parametrize("what", ["garbage", "empty", "NUL", "huge", "deep", "another's", "another kind", "no agent"])
async def test_what_cannot_be_decoded_becomes_a_letter_at_once(
    what: str, bus: Any, act: Any, fold: Any, run: Any, publish: Any, facts: Any, until: Any
) -> None:
    """It is not tried, nothing else stops, and there is one letter about it."""
    subject = subject_of(act(1))
    subject = {"no agent": "conch.v1._.action.taken"}.get(what, subject)
    data = {
        "garbage": b"\xff\xfe{{{",
        "empty": b"",
        "NUL": b"\x00" * 100,
        "huge": b"[" * 900_000,
        "deep": b'{"data":' * 5000 + b"1" + b"}" * 5000,
        "another's": encode(act(1, "delta")),
        "another kind": encode(follow(act(1), CycleReflected, consumer="x", version="1", reflection="", sleep=0, ms=0)),
        "no agent": encode(act(1)),
    }[what]

    async with run(bus, fold()) as runtime:
        await bus.publish(subject, data, id="forged")
        await publish(bus, act(2))
        await until(lambda: runtime.tally.handled == 1 and runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert (letter.tries, letter.letter_seq, letter.letter_subject) == (0, 1, subject)
    assert (letter.letter == "") == (what in ("huge", "empty"))
    assert runtime.tally.failures == 0
    assert await seen(bus) == [2]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), RecursionError("deep")])
async def test_whatever_a_handler_raises_is_its_failure_alone(
    error: BaseException, bus: Any, act: Any, run: Any, publish: Any, until: Any
) -> None:
    """Exiting and cancelling too: it is tried again, becomes a letter, and the consumer goes on."""

    async def handle(action: ActionTaken) -> None:
        if action.cycle == 1:
            raise error

    async with run(bus, ConsumerSpec("odd", "1", (ActionTaken,), handle, tries=2)) as runtime:
        await publish(bus, act(1))
        await publish(bus, act(2))
        await until(lambda: runtime.tally.handled == 1)

    assert (runtime.tally.failures, runtime.tally.letters) == (2, 1)


@pytest.mark.parametrize("result", ["text", 3, object()])
async def test_what_is_no_event_is_a_failure(
    result: object, bus: Any, act: Any, run: Any, publish: Any, facts: Any, until: Any
) -> None:
    """A consumer returns events; anything else becomes a letter that says so."""
    async with run(bus, ConsumerSpec("odd", "1", (ActionTaken,), lambda _: [result], tries=1)) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert "not an event" in letter.reason


async def test_a_fold_that_returns_no_state_of_its_own_is_a_failure(
    bus: Any, act: Any, fold: Any, run: Any, publish: Any, facts: Any, until: Any
) -> None:
    """It is found where it happens, not when the state is written."""
    async with run(bus, fold(lambda state, _: ({"cycles": ()}, None), tries=1)) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert "Seen" in letter.reason


async def test_a_letter_about_a_letter_is_not_written(
    bus: Any, act: Any, run: Any, publish: Any, facts: Any, until: Any
) -> None:
    """A consumer of letters that fails on each would otherwise write them without end."""

    def handle(event: Event) -> None:
        raise RuntimeError("never")

    spec = ConsumerSpec("bad", "1", (ActionTaken, ConsumerFailed), handle, tries=1)
    async with run(bus, spec) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 2)

    assert len(await facts(bus, ConsumerFailed)) == 1


async def test_a_repetition_that_the_server_has_forgotten_is_counted_not_applied(
    world: Any, act: Any, fold: Any, pace: Any, run: Any, publish: Any, until: Any
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
    world: Any,
    act: Any,
    fold: Any,
    pace: Any,
    run: Any,
    publish: Any,
    facts: Any,
    until: Any,
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
    seed: int, world: Any, act: Any, fold: Any, pace: Any, publish: Any, facts: Any, until: Any
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


async def test_shutting_down_finishes_what_is_in_hand(bus: Any, act: Any, run: Any, publish: Any, until: Any) -> None:
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
    bus: Any, act: Any, run: Any, publish: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a handler that waits, no more than the bound is taken from the stream."""
    monkeypatch.setattr(run_module, "PARKED", 4)
    release = asyncio.Event()

    async def handle(action: ActionTaken) -> None:
        await release.wait()

    async with run(bus, ConsumerSpec("slow", "1", (ActionTaken,), handle)) as runtime:
        for cycle in range(1, 21):
            await publish(bus, act(cycle))
        await until(lambda: runtime._parked == 4)
        await publish(bus, act(21))
        assert runtime._parked == 4
        release.set()
        await until(lambda: runtime.tally.handled == 21)


async def test_two_copies_of_a_fold_never_fork_its_state(
    world: Any, act: Any, fold: Any, publish: Any, facts: Any, until: Any
) -> None:
    """The copy that was taken over stops with FencedError; the state is that of one."""
    async with world.bus() as bus:
        first = asyncio.create_task(Alone(bus, fold()).run(asyncio.Event()))
        for cycle in range(1, 11):
            await publish(bus, act(cycle))
        await until(lambda: _has(bus, 5))
        stop, runtime = asyncio.Event(), Alone(bus, fold())
        second = asyncio.create_task(runtime.run(stop))
        await until(lambda: runtime.handled >= 10)
        for cycle in range(11, 21):
            await publish(bus, act(cycle))
        with pytest.raises(FencedError):
            async with asyncio.timeout(30):
                await first
        await until(lambda: _has(bus, 20))
        stop.set()
        await second

        assert await seen(bus) == list(range(1, 21))
        assert [int(event.reflection) for event in await facts(bus, CycleReflected)] == list(range(1, 21))


async def test_a_copy_that_took_over_goes_on_from_the_last_write_of_the_other(
    bus: Any, act: Any, fold: Any, run: Any, publish: Any, facts: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other was just writing its states: this one begins again from those, and is not fenced itself."""
    async with run(bus, fold()) as first:
        await publish(bus, act(1))
        await until(lambda: first.tally.handled == 1)
    second = Alone(bus, fold())
    monkeypatch.setattr(second, "_snapshot", _meanwhile(bus, second._snapshot))
    stop = asyncio.Event()
    task = asyncio.create_task(second.run(stop))
    await publish(bus, act(2))
    await until(lambda: _has(bus, 2))
    stop.set()
    await task

    assert await seen(bus) == [1, 2]
    assert [event.reflection for event in await facts(bus, CycleReflected)] == ["1", "2"]


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


async def _has(bus: Any, count: int) -> bool:
    return len(await seen(bus)) >= count


async def test_a_write_of_another_copy_stops_this_one(bus: Any, act: Any, fold: Any, publish: Any, until: Any) -> None:
    """The bucket's compare-and-set is the fence, whoever reads."""
    task = asyncio.create_task(Alone(bus, fold()).run(asyncio.Event()))
    await publish(bus, act(1))
    await until(lambda: _has(bus, 1))
    taken = await take_place(bus, fold())
    await publish(bus, act(2))

    with pytest.raises(FencedError):
        async with asyncio.timeout(30):
            await task
    assert await taken.is_held()


@pytest.mark.parametrize("bad", [b"garbage", b"[]", b'{"seq":1,"epoch":"x","state":{"cycles":"no"}}'])
async def test_a_state_that_cannot_be_read_is_not_guessed(
    bad: bytes, bus: Any, act: Any, fold: Any, publish: Any
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
async def test_a_position_that_cannot_be_read_is_not_guessed(bad: bytes, bus: Any, fold: Any) -> None:
    """The same for the position."""
    await bus.put(position_key("count"), bad, revision=0)

    with pytest.raises(ContractError, match="consumer reset count"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())


async def test_a_bus_that_refuses_is_no_failure_of_the_handler(
    bus: Any, act: Any, fold: Any, publish: Any, facts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` raises; no letter blames the event, and it is handled the next time."""
    await publish(bus, act(1))
    real = type(bus).publish_many

    async def refuse(*_: Any, **__: Any) -> None:
        raise BusError("no permission")

    monkeypatch.setattr(type(bus), "publish_many", refuse)
    with pytest.raises(BusError, match="no permission"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())
    monkeypatch.setattr(type(bus), "publish_many", real)

    assert await facts(bus, ConsumerFailed) == []
    assert json.loads((await bus.get(position_key("count"))).value)["seq"] == 0


async def test_a_fold_is_rebuilt_when_its_letter_is_retried(
    bus: Any, act: Any, fold: Any, pace: Any, counting: Any, run: Any, publish: Any, facts: Any, until: Any
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
        await until(lambda: _has(bus, 6))

    said = await facts(bus, CycleReflected)
    assert await seen(bus) == [1, 2, 3, 4, 5, 6]
    assert sorted(event.cycle for event in said) == [1, 2, 3, 4, 5, 6]
    assert len(await facts(bus, ConsumerFailed)) == 2


async def test_letters_that_are_retried_one_after_the_other_keep_each_others_effect(
    bus: Any, act: Any, fold: Any, pace: Any, counting: Any, run: Any, publish: Any, until: Any
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
    bus: Any,
    act: Any,
    fold: Any,
    pace: Any,
    counting: Any,
    run: Any,
    publish: Any,
    until: Any,
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
        await until(lambda: _has(bus, 29))

    assert await seen(bus) == list(range(1, 30))


async def test_a_consumer_without_state_retries_the_event_itself(
    bus: Any, act: Any, run: Any, publish: Any, facts: Any, until: Any
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


async def test_letters_are_open_until_they_are_settled(bus: Any, act: Any, run: Any, publish: Any, until: Any) -> None:
    """Settling twice changes nothing; a letter is found by the beginning of its id."""

    def handle(action: ActionTaken) -> None:
        raise ValueError("bad")

    async with run(bus, ConsumerSpec("plain", "1", (ActionTaken,), handle, tries=1)) as runtime:
        await publish(bus, act(1))
        await publish(bus, act(2))
        await until(lambda: runtime.tally.letters == 2)

    first, second = [letter async for letter in open_letters(bus)]
    assert await letter_named(bus, first.id[:13]) == first
    await settle(bus, first, "dropped")
    await settle(bus, first, "retried")
    assert [letter.id async for letter in open_letters(bus)] == [second.id]
    assert len([letter async for letter in open_letters(bus, settled=True)]) == 2
    with pytest.raises(ConchError, match="0 dead letters"):
        await letter_named(bus, first.id)


async def test_a_reset_consumer_begins_at_the_start(
    bus: Any, act: Any, fold: Any, run: Any, publish: Any, facts: Any, until: Any
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
    act: Any, fold: Any, publish: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An act is handled while the states are being written, then everything dies: it is folded the next time."""
    from conch.bus import MemoryBus

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
        monkeypatch.setattr(runtime, "_snapshots", None)
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


async def test_a_consumer_that_lingers_lets_others_go_first(until: Any, act: Any) -> None:
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


async def test_a_retried_letter_takes_nothing_from_the_state(
    bus: Any, act: Any, fold: Any, counting: Any, run: Any, publish: Any, facts: Any, until: Any
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


@pytest.mark.parametrize(
    "bad",
    [
        b'{"seq":1,"epoch":"E","recent":[],"shares":{"0":5}}',
        b'{"seq":-4,"epoch":"E","recent":[]}',
        b'{"seq":Infinity,"epoch":"E","recent":[]}',
        b"[" * 100_000,
    ],
)
async def test_a_place_that_is_none_is_one_sentence(bad: bytes, bus: Any, fold: Any) -> None:
    """Whatever is wrong with it: the consumer is named, and what to do."""
    epoch = (await bus.state()).epoch
    await bus.put(position_key("count"), bad.replace(b'"E"', json.dumps(epoch).encode()), revision=0)

    with pytest.raises(ContractError, match="consumer reset count"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())


async def test_a_worker_that_stood_still_says_nothing_once_its_place_is_taken(
    bus: Any, act: Any, fold: Any, publish: Any, facts: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks before it says anything, when it has not been sure of its place for a while."""
    monkeypatch.setattr(run_module, "SURE_SECONDS", -1.0)
    monkeypatch.setattr(run_module, "SNAPSHOT_SECONDS", 3600.0)
    task = asyncio.create_task(Alone(bus, fold()).run(asyncio.Event()))
    await publish(bus, act(1))
    await until(lambda: holder_of(bus, "count", "echo"))
    await take_place(bus, fold())
    await publish(bus, act(2))

    with pytest.raises(FencedError):
        async with asyncio.timeout(30):
            await task
    assert [event.reflection for event in await facts(bus, CycleReflected)] in ([], ["1"])

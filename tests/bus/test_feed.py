"""The feed: one pull for all who read in a process, and none of them held up by another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import ReceivedEvent, shared_subscription
from conch.bus import subscription as feed_module
from conch_schemas import ActionTaken, ContractViolationError, CycleReflected, encode, subject_of

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct


@pytest.fixture
def publish(act: MakeAct) -> Callable[..., Awaitable[int]]:
    """`await publish(bus, cycle)`: an act on the stream; its place."""

    async def put(bus: Any, cycle: int, agent: str = "echo") -> int:
        event = act(cycle, agent)
        return int((await bus.publish(subject_of(event), encode(event), id=event.id)).seq)

    return put


async def taken(subscription: Any, count: int, most: int = 256) -> list[ReceivedEvent]:
    found: list[ReceivedEvent] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await subscription.get(most)
    return found


def cycles(arrivals: Sequence[ReceivedEvent]) -> list[int | None]:
    return [arrived.event.cycle for arrived in arrivals]


async def test_each_tap_is_given_what_it_asked_for_in_order(bus: Bus, publish: Callable[..., Awaitable[int]]) -> None:
    """From behind its own place, of its own kinds and agents; what came before it, and what comes while it reads."""
    for cycle in range(1, 4):
        await publish(bus, cycle)
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe((ActionTaken,), after=1) as some,
        shared_events.subscribe(None, after=0, agent="delta") as deltas,
        shared_events.subscribe((CycleReflected,), after=0) as none,
        shared_events.subscribe(None, after=0, mine=lambda agent: agent != "echo") as others,
    ):
        for cycle in range(4, 6):
            await publish(bus, cycle)
            await publish(bus, cycle, "delta")

        assert cycles(await taken(some, 6)) == [2, 3, 4, 4, 5, 5]
        assert cycles(await taken(deltas, 2)) == cycles(await taken(others, 2)) == [4, 5]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await none.get()


class Bell(asyncio.Event):
    """An event that counts how often it is set."""

    rung = 0

    def set(self) -> None:
        self.rung += 1
        super().set()


async def test_an_event_wakes_those_alone_who_asked_for_it(bus: Bus, publish: Callable[..., Awaitable[int]]) -> None:
    """A process has a dozen taps, and most events concern a few of them."""
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe((ActionTaken,), after=shared_events.seq) as some,
        shared_events.subscribe((CycleReflected,), after=shared_events.seq) as none,
    ):
        some._wake, none._wake = Bell(), Bell()
        await publish(bus, 1)
        await taken(some, 1)

        assert (some._wake.rung, none._wake.rung) == (1, 0)


async def test_an_event_is_decoded_once_however_many_look(
    bus: Bus, publish: Callable[..., Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All taps are given the same one; one that was said here is not decoded at all."""
    decoded = []
    real = feed_module.decoded
    monkeypatch.setattr(feed_module, "decoded", lambda *words: decoded.append(words) or real(*words))
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as one,
        shared_events.subscribe(None, after=shared_events.seq) as other,
    ):
        await publish(bus, 1)
        [first], [second] = await taken(one, 1), await taken(other, 1)

        assert first.event is second.event
        assert len(decoded) == 1


async def test_what_was_said_here_is_not_decoded(
    bus: Bus, act: MakeAct, publish: Callable[..., Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back byte for byte: the event that it was encoded from is given out."""
    event = act(1)
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as subscription,
    ):
        shared_events.expect(encode(event), event)
        await bus.publish(subject_of(event), encode(event), id=event.id)
        [arrived] = await taken(subscription, 1)

        assert arrived.event is event


async def test_garbage_is_told_to_each_who_looks(bus: Bus) -> None:
    """Every time it is looked at, by everybody."""
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as one,
        shared_events.subscribe(None, after=shared_events.seq) as other,
    ):
        await bus.publish("conch.v1.echo.action.taken", b"\xff{", id="garbage")
        for subscription in (one, other):
            [arrived] = await taken(subscription, 1)
            for _ in range(2):
                with pytest.raises(ContractViolationError):
                    _ = arrived.event


async def test_a_tap_that_stands_still_holds_up_nobody_and_misses_nothing(
    bus: Bus, publish: Callable[..., Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue is full and stays so: the others go on; later it is given all, in order, and is level again."""
    monkeypatch.setattr(feed_module, "QUEUE_EVENTS", 4)
    monkeypatch.setattr(feed_module, "PATIENCE", 0.01)
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as still,
        shared_events.subscribe(None, after=shared_events.seq) as quick,
    ):
        assert cycles([await anext_of(still, bus, publish)]) == [1]
        got = cycles(await taken(quick, 1))
        for cycle in range(2, 41):
            await publish(bus, cycle)
            got += cycles(await taken(quick, 1))
        assert got == list(range(1, 41))
        assert not still.level

        assert cycles(await taken(still, 39, most=3)) == list(range(2, 41))
        await publish(bus, 41)
        assert cycles(await taken(still, 1)) == [41]


async def test_one_that_reads_by_itself_is_given_what_was_said_here_undecoded(
    bus: Bus, act: MakeAct, publish: Callable[..., Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those are who keep up; what stands on another's subject is decoded, and refused, all the same."""
    monkeypatch.setattr(feed_module, "QUEUE_EVENTS", 4)
    monkeypatch.setattr(feed_module, "PATIENCE", 0.01)
    said = [act(cycle) for cycle in range(2, 41)]
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as still,
        shared_events.subscribe(None, after=shared_events.seq) as quick,
    ):
        await anext_of(still, bus, publish)
        await taken(quick, 1)
        for event in said:
            shared_events.expect(encode(event), event)
            await bus.publish(subject_of(event), encode(event), id=event.id)
            await taken(quick, 1)
        await bus.publish("conch.v1.delta.action.taken", encode(said[-1]), id="elsewhere")
        await taken(quick, 1)
        assert not still.level

        *found, elsewhere = await taken(still, 40, most=3)

        assert [arrived.event for arrived in found] == said
        assert all(arrived.event is event for arrived, event in zip(found, said, strict=True))
        with pytest.raises(ContractViolationError, match="stands on"):
            _ = elsewhere.event


async def anext_of(subscription: Any, bus: Any, publish: Any) -> ReceivedEvent:
    """The first event, so that the tap is level."""
    await publish(bus, 1)
    [arrived] = await taken(subscription, 1)
    return arrived


async def test_a_tap_that_keeps_up_is_waited_for(
    bus: Bus, publish: Callable[..., Awaitable[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full for a moment, it does not read by itself what the feed has already: nothing is pulled or decoded twice."""
    monkeypatch.setattr(feed_module, "QUEUE_EVENTS", 4)
    monkeypatch.setattr(feed_module, "PATIENCE", 10.0)
    monkeypatch.setattr(feed_module, "BATCH", 2)
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as subscription,
    ):
        await anext_of(subscription, bus, publish)
        for cycle in range(2, 31):
            await publish(bus, cycle)

        assert cycles(await taken(subscription, 29, most=3)) == list(range(2, 31))
        assert subscription.level


async def test_a_reading_that_is_cancelled_has_given_out_nothing(
    bus: Bus, publish: Callable[..., Awaitable[int]]
) -> None:
    """Whoever asks next is given it: while it waits, and while it catches up."""
    for cycle in range(1, 4):
        await publish(bus, cycle)
    async with shared_subscription(bus) as shared_events, shared_events.subscribe(None, after=0) as subscription:
        given: list[ReceivedEvent] = []
        for _ in range(5):
            reading = asyncio.create_task(subscription.get(1))
            await asyncio.sleep(0)
            reading.cancel()
            [found] = await asyncio.gather(reading, return_exceptions=True)
            given += found if isinstance(found, list) else []

        assert cycles([*given, *await taken(subscription, 3 - len(given))]) == [1, 2, 3]


async def test_what_ends_the_reading_is_told_to_all(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever for a feed that reads no more."""
    async with (
        shared_subscription(bus) as shared_events,
        shared_events.subscribe(None, after=shared_events.seq) as subscription,
    ):
        waiting = asyncio.create_task(subscription.get())
        await asyncio.sleep(0.01)
        shared_events.broken = RuntimeError("gone")
        subscription._wake.set()

        with pytest.raises(RuntimeError, match="gone"):
            await waiting

"""What every bus promises; see `conch.bus.protocol`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from conch.bus import Bus, Delivery, Reader
from conch.errors import BusError, FencedError
from tests.durables import durable

if TYPE_CHECKING:
    from tests.conftest import World


SUBJECT = "conch.v1.echo.action.taken"
OTHER = "conch.v1.echo.goal.set"
Until = Callable[..., Awaitable[None]]


async def fill(bus: Bus, count: int, subject: str = SUBJECT, *, start: int = 0) -> None:
    """Publish `count` events, `b"0"`, `b"1"`, …, one after the other."""
    for number in range(start, start + count):
        await bus.publish(subject, b"%d" % number, id=f"{subject}/{number}")


async def take(reader: Reader, count: int) -> list[Delivery]:
    """The next `count` events."""
    found: list[Delivery] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await reader.get(count - len(found))
    return found


async def everything(bus: Bus, filters: Sequence[str] = ("conch.v1.>",), after: int = 0) -> list[bytes]:
    """What `read` brings."""
    async with asyncio.timeout(30):
        return [delivery.data async for delivery in bus.read(filters, after=after)]


async def test_publish_returns_the_place_that_the_stream_gave(bus: Bus) -> None:
    """An acknowledged event stands where its acknowledgement says."""
    first = await bus.publish(SUBJECT, b"one", id="1")
    second = await bus.publish(SUBJECT, b"two", id="2")

    assert (first.seq, first.duplicate, second.seq, second.duplicate) == (1, False, 2, False)
    found = await bus.at(2)
    assert found is not None
    assert (found.seq, found.subject, found.data) == (2, SUBJECT, b"two")


async def test_an_id_published_twice_is_stored_once(bus: Bus) -> None:
    """The second acknowledgement is that of the first copy, and says so."""
    first = await bus.publish(SUBJECT, b"one", id="1")
    again = await bus.publish(SUBJECT, b"one", id="1")

    assert (again.seq, again.duplicate) == (first.seq, True)
    assert (await bus.state()).messages == 1


async def test_a_thousand_at_once_are_stored_once_each(bus: Bus) -> None:
    """Publishing is pipelined, and pipelining loses and doubles nothing."""
    stored = await asyncio.gather(*(bus.publish(SUBJECT, b"%d" % n, id=str(n)) for n in range(1000)))

    assert sorted(one.seq for one in stored) == list(range(1, 1001))
    assert sorted(map(int, await everything(bus))) == list(range(1000))


@pytest.mark.parametrize(
    "subject", ["conch.v2.echo.a.b", "conch.ctl.echo.stop", "conch.v1.a b.c", "conch.v1.*.a", "conch.v1..a", ""]
)
async def test_a_subject_outside_the_stream_is_refused(bus: Bus, subject: str) -> None:
    """It raises at once instead of being retried for ever, and the bus works on."""
    with pytest.raises(BusError, match="subject"):
        await bus.publish(subject, b"", id="1")

    assert (await bus.publish(SUBJECT, b"", id="2")).seq == 1


async def test_what_is_too_large_is_refused(bus: Bus) -> None:
    """More than a megabyte raises, as an event and as a value, and the bus works on."""
    with pytest.raises(BusError, match="bytes"):
        await bus.publish(SUBJECT, b"x" * 2**20, id="1")
    with pytest.raises(BusError, match="bytes"):
        await bus.put("state/a", b"x" * 2**20, revision=0)

    assert (await bus.publish(SUBJECT, b"x" * 700_000, id="2")).seq == 1


async def test_a_bus_that_was_left_says_so(world: World) -> None:
    """Publishing on it raises; it does not wait for a connection that nobody makes."""
    async with world.bus() as bus:
        await bus.publish(SUBJECT, b"", id="1")
        assert bus.connected

    with pytest.raises(BusError, match="left"):
        await bus.publish(SUBJECT, b"", id="2")
    assert not bus.connected


async def test_a_full_stream_makes_publishers_wait_and_drops_nothing(world: World, until: Until) -> None:
    """At the bound the publisher waits; when there is room again, it goes on."""
    acknowledged: list[int] = []
    seen: list[int] = []

    async def publish(bus: Bus, number: int) -> None:
        stored = await bus.publish(SUBJECT, b"%d" % number + b" " * 1000, id=str(number))
        acknowledged.append(stored.seq)

    async with world.bus(room=20) as bus, bus.follow([SUBJECT], after=0) as reader:
        publishers = asyncio.gather(*(publish(bus, number) for number in range(60)))
        while len(seen) < 60:
            found = await take(reader, 1)
            seen.append(int(found[0].data))
            await until(lambda: len(acknowledged) == 60 or len(acknowledged) > len(seen) + 10)
            assert (await bus.state()).messages <= 24
            await bus.trim(found[-1].seq + 1)
        await publishers

    assert sorted(acknowledged) == list(range(1, 61))
    assert sorted(seen) == list(range(60))


async def test_a_bound_that_was_raised_holds_from_the_next_start(world: World) -> None:
    """A stream that was full takes events again when more room is configured."""
    async with world.bus(room=3) as bus:
        for number in range(3):
            await bus.publish(SUBJECT, b" " * 1000, id=str(number))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await bus.publish(SUBJECT, b" " * 1000, id="3")

    async with world.bus(room=6) as bus, asyncio.timeout(30):
        await bus.publish(SUBJECT, b" " * 1000, id="4")
    assert bus is not None


async def test_a_reader_gets_what_stands_there_and_what_comes(bus: Bus) -> None:
    """Entered, a reader has every event behind its place, in stream order, live."""
    await fill(bus, 3)

    async with bus.follow([SUBJECT], after=1) as reader:
        before = await take(reader, 2)
        waiting = asyncio.ensure_future(take(reader, 2))
        await fill(bus, 2, start=3)
        live = await waiting

    assert [delivery.seq for delivery in before + live] == [2, 3, 4, 5]
    assert [delivery.data for delivery in live] == [b"3", b"4"]
    assert all(delivery.subject == SUBJECT for delivery in live)


async def test_more_than_one_pull_holds_arrives_in_order(bus: Bus) -> None:
    """Thousands of events come once each, in stream order."""
    await asyncio.gather(*(bus.publish(SUBJECT, b"", id=str(n)) for n in range(3000)))

    async with bus.follow([SUBJECT], after=0) as reader:
        found = await take(reader, 3000)

    assert [delivery.seq for delivery in found] == list(range(1, 3001))


async def test_a_reader_takes_only_what_its_filters_match(bus: Bus) -> None:
    """`*` stands for one token."""
    await fill(bus, 1)
    await fill(bus, 1, OTHER)
    await fill(bus, 1, "conch.v1.delta.goal.set")

    async with bus.follow(["conch.v1.*.goal.set"], after=0) as reader:
        found = await take(reader, 2)

    assert [delivery.subject for delivery in found] == [OTHER, "conch.v1.delta.goal.set"]


async def test_cancelling_a_wait_loses_nothing(bus: Bus) -> None:
    """The events that come after a cancelled `get` are all brought by the next one."""
    found: list[Delivery] = []
    async with bus.follow([SUBJECT], after=0) as reader:
        for number in range(20):
            waiting = asyncio.ensure_future(reader.get())
            publishing = asyncio.ensure_future(bus.publish(SUBJECT, b"", id=str(number)))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting, publishing})
            if not waiting.cancelled():
                found += waiting.result()  # it was there already
        found += await take(reader, 20 - len(found))

    assert [delivery.seq for delivery in found] == list(range(1, 21))


async def test_a_durable_of_another_program_is_known_with_what_it_has_left(bus: Bus) -> None:
    """`readers` says how far it is; forgotten, it is gone, and twice is once."""
    await fill(bus, 5)
    await durable(bus, "theirs", [SUBJECT], after=3)

    assert [(one.name, one.acknowledged, one.pending, one.redelivered) for one in await bus.readers()] == [
        ("theirs", 3, 2, 0)
    ]
    await bus.forget("theirs")
    await bus.forget("theirs")
    assert list(await bus.readers()) == []


async def test_a_follower_leaves_no_trace(bus: Bus) -> None:
    """A reader reads live and is no durable."""
    await fill(bus, 2)
    async with bus.follow([SUBJECT], after=1) as reader:
        waiting = asyncio.ensure_future(take(reader, 2))
        await fill(bus, 1, start=2)

        assert [delivery.seq for delivery in await waiting] == [2, 3]
        assert list(await bus.readers()) == []


async def test_read_ends_at_the_end(bus: Bus) -> None:
    """Reading brings what stands there, also where nothing at the tail matches, and then ends."""
    assert await everything(bus) == []
    await fill(bus, 3)
    await fill(bus, 3, OTHER)

    assert await everything(bus, [SUBJECT]) == [b"0", b"1", b"2"]
    assert await everything(bus, [SUBJECT], after=2) == [b"2"]
    assert await everything(bus, [SUBJECT], after=3) == []
    assert await everything(bus, ["conch.v1.nobody.goal.set"]) == []
    assert await everything(bus, after=99) == []


async def test_read_ends_where_the_end_was_when_it_began(bus: Bus) -> None:
    """What is published meanwhile is not chased."""
    await fill(bus, 600)
    seen = 0

    async with contextlib.aclosing(bus.read([SUBJECT])) as events:  # type: ignore[type-var]
        async for _ in events:
            seen += 1
            await bus.publish(SUBJECT, b"more", id=f"more {seen}")

    assert seen == 600


async def test_read_ends_when_what_it_waits_for_is_trimmed(bus: Bus) -> None:
    """Events that vanish while they are read do not keep the reader waiting."""
    await asyncio.gather(*(bus.publish(SUBJECT, b" " * 100, id=str(n)) for n in range(2000)))
    seen = 0

    async with asyncio.timeout(30):
        async for delivery in bus.read([SUBJECT]):
            if not seen:
                await bus.trim(2001)
            seen = delivery.seq

    assert 0 < seen <= 2000


async def test_last_at_and_state_tell_the_same_story(bus: Bus) -> None:
    """The newest of a subject, the event of a place, and the numbers of the whole."""
    empty = await bus.state()
    assert (empty.first, empty.last, empty.messages, empty.missing) == (1, 0, 0, 0)
    await fill(bus, 3)
    await fill(bus, 1, OTHER)

    [third] = [delivery async for delivery in bus.read([SUBJECT], after=2)]
    state = await bus.state()

    assert await bus.last(SUBJECT) == third == await bus.at(3)
    assert await bus.last("conch.v1.echo.goal.dropped") is None
    assert await bus.at(9) is None
    assert (state.first, state.last, state.messages, state.missing, state.epoch) == (1, 4, 4, 0, empty.epoch)
    assert state.bytes > 0


async def test_events_are_counted_where_they_are(bus: Bus) -> None:
    """Those behind a place that a filter matches, trimmed ones not; nobody is left behind who counted."""
    await fill(bus, 4)
    await fill(bus, 3, OTHER)
    await bus.trim(3)

    assert await bus.count([SUBJECT], after=0) == 2
    assert await bus.count([SUBJECT, OTHER], after=3) == 4
    assert await bus.count(["conch.v1.>"], after=6) == 1
    assert await bus.count([OTHER], after=7) == 0
    assert await bus.count(["conch.v1.delta.>"], after=0) == 0
    assert await bus.readers() == []


async def test_trimming_drops_what_is_before(bus: Bus) -> None:
    """The numbers go on after it, also when nothing is left."""
    await fill(bus, 5)

    await bus.trim(4)
    some = await bus.state()
    await bus.trim(6)
    none = await bus.state()

    assert (some.first, some.last, some.messages) == (4, 5, 2)
    assert (none.first, none.last, none.messages, none.missing) == (6, 5, 0, 0)
    assert await bus.at(3) is None
    assert (await bus.publish(SUBJECT, b"", id="new")).seq == 6


async def test_a_new_bus_goes_on_where_the_old_one_was(world: World) -> None:
    """Stream, bucket, readers and the stream's identity outlive the bus."""
    async with world.bus() as bus:
        await fill(bus, 2)
        await bus.put("state/a", b"kept", revision=0)
        await durable(bus, "theirs", [SUBJECT], after=0)
        before = await bus.state()

    async with world.bus() as bus:
        entry = await bus.get("state/a")
        assert await bus.state() == before
        assert entry is not None
        assert entry.value == b"kept"
        assert [state.name for state in await bus.readers()] == ["theirs"]
        assert (await bus.publish(SUBJECT, b"0", id=f"{SUBJECT}/0")).duplicate


async def test_buses_entered_at_the_same_moment_share_one_stream(world: World) -> None:
    """Whoever comes first makes it; all see the same one."""
    async with contextlib.AsyncExitStack() as stack:
        buses = await asyncio.gather(*(stack.enter_async_context(world.bus()) for _ in range(5)))

        assert len({(await bus.state()).epoch for bus in buses}) == 1


async def test_the_bucket_compares_and_sets(bus: Bus) -> None:
    """A write at the revision that was read succeeds; at any other, FencedError, and nothing is changed."""
    assert await bus.get("state/a") is None
    first = await bus.put("state/a", b"1", revision=0)
    second = await bus.put("state/a", b"2", revision=first)

    for stale in (0, first, second + 5):
        with pytest.raises(FencedError):
            await bus.put("state/a", b"3", revision=stale)
    entry = await bus.get("state/a")

    assert entry is not None
    assert (entry.value, entry.revision) == (b"2", second)


async def test_the_bucket_lists_its_keys(bus: Bus) -> None:
    """Sorted, each once."""
    revision = await bus.put("state/needs/echo", b"", revision=0)
    await bus.put("state/needs/echo", b"2", revision=revision)
    await bus.put("position/needs", b"", revision=0)

    assert list(await bus.keys()) == ["position/needs", "state/needs/echo"]


@pytest.mark.parametrize("key", ["", "a.b", "a b", "a/", "/a", "a//b", "a\r\nPUB x 0", "*", "é", "a" * 600])
async def test_what_can_be_no_key_is_refused(key: str, bus: Bus) -> None:
    """A key may hold what somebody else chose: nothing of it reaches the server as a command."""
    with pytest.raises(BusError, match="can be no key"):
        await bus.put(key, b"", revision=0)

    assert not await bus.keys()


@pytest.mark.parametrize("name", ["", "a b", "a\r\nPUB conch.ctl.echo.stop 0\r\n\r\n", "*", ">", "a..b", "a" * 600])
async def test_nobody_is_asked_on_what_is_no_subject(name: str, bus: Bus) -> None:
    """Nor is anybody else."""
    heard: list[str] = []

    async def hear(subject: str, data: bytes) -> bytes:
        heard.append(subject)
        return b""

    async with bus.serve("conch.ctl.>", hear):
        with pytest.raises(BusError, match="nobody can be asked"):
            await bus.request(f"conch.ctl.{name}", b"", timeout=5)
        await bus.request("conch.ctl.echo.status", b"", timeout=5)

    assert heard == ["conch.ctl.echo.status"]


async def test_of_many_writers_one_wins(bus: Bus) -> None:
    """Side by side at one revision: one succeeds, all others are fenced."""
    results = await asyncio.gather(
        *(bus.put("state/a", b"%d" % number, revision=0) for number in range(10)), return_exceptions=True
    )

    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, FencedError) for result in results) == 9


async def test_a_request_is_answered(bus: Bus) -> None:
    """By whoever serves the subject, wildcards too, and only while entered."""

    async def respond(subject: str, data: bytes) -> bytes:
        return subject.encode() + b" " + data

    async with bus.serve("conch.ctl.*.pause", respond):
        assert await bus.request("conch.ctl.echo.pause", b"now", timeout=5) == b"conch.ctl.echo.pause now"

    with pytest.raises(BusError, match="nobody"):
        await bus.request("conch.ctl.echo.pause", b"now", timeout=5)


async def test_a_responder_that_raises_fails_that_request_alone(bus: Bus) -> None:
    """The asker hears why, at once; the next request is answered."""

    async def respond(_subject: str, data: bytes) -> bytes:
        if data == b"bad":
            raise ValueError("not that")
        return b"fine"

    async with bus.serve("conch.ctl.echo.say", respond):
        with pytest.raises(BusError, match="not that"):
            await bus.request("conch.ctl.echo.say", b"bad", timeout=5)
        assert await bus.request("conch.ctl.echo.say", b"good", timeout=5) == b"fine"


async def test_a_request_that_takes_long_holds_up_no_other(bus: Bus) -> None:
    """One waits for its answer; others of the same subject are answered meanwhile, and one may run out of time."""
    release = asyncio.Event()

    async def respond(_subject: str, data: bytes) -> bytes:
        if data == b"long":
            await release.wait()
        return data

    async with bus.serve("conch.ctl.echo.say", respond):
        long = asyncio.ensure_future(bus.request("conch.ctl.echo.say", b"long", timeout=10))
        assert await bus.request("conch.ctl.echo.say", b"short", timeout=5) == b"short"
        with pytest.raises(BusError, match="within"):
            await bus.request("conch.ctl.echo.say", b"long", timeout=0.05)
        release.set()
        assert await long == b"long"


async def test_leaving_a_service_finishes_what_is_being_answered(bus: Bus, until: Until) -> None:
    """A request that was taken gets its reply."""
    asked, release = asyncio.Event(), asyncio.Event()

    async def respond(_subject: str, _data: bytes) -> bytes:
        asked.set()
        await release.wait()
        return b"done"

    async with bus.serve("conch.ctl.echo.say", respond):
        request = asyncio.ensure_future(bus.request("conch.ctl.echo.say", b"", timeout=5))
        await asked.wait()
        asyncio.get_running_loop().call_later(0.01, release.set)

    assert await request == b"done"

"""The ring of frames: each page has every frame once, in order, or is told what it misses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.bus import Delivery, MemoryBus, MemoryJournal, ReceivedEvent, shared_subscription
from conch_schemas import ActionTaken, GoalDropped, MarkWitnessed, encode, subject_of
from conch_services.dashboard.stream import hub as hub_module
from conch_services.dashboard.stream.frames import frame
from conch_services.dashboard.stream.hub import LIVE, LiveHub, PageUpdate

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until


Publish = Callable[..., Any]


async def publish(bus: MemoryBus, act: ActionTaken) -> int:
    """The place that the act has now."""
    return (await bus.publish(subject_of(act), encode(act), id=act.id)).seq


@asynccontextmanager
async def following(bus: MemoryBus, hub: LiveHub) -> AsyncIterator[None]:
    """While entered, the hub follows the bus."""
    async with shared_subscription(bus) as shared_events:
        task = asyncio.create_task(hub.follow(shared_events))
        while hub.state != LIVE and not task.done():
            await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def places(frames: bytes) -> list[int]:
    """Where the frames stand in the stream."""
    return [int(place) for place in re.findall(rb"^id: (\d+)$", frames, re.MULTILINE)]


async def taken(news: AsyncIterator[PageUpdate], upto: int) -> tuple[list[int], int]:
    """(places of the frames up to that one, how many were said to be missed)."""
    found: list[int] = []
    missed = 0
    async with asyncio.timeout(30):
        async for one in news:
            found += places(one.frames)
            missed += one.missed
            if one.after >= upto:
                break
    return found, missed


async def test_a_page_has_every_frame_once_in_order(act: MakeAct) -> None:
    """From the place that it names on: what was before it is not told again."""
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        last = [await publish(bus, act(cycle)) for cycle in range(1, 8)][-1]

        whole, none_missed = await taken(hub.news(0), last)
        rest, _ = await taken(hub.news(4), last)

    assert whole == [1, 2, 3, 4, 5, 6, 7]
    assert none_missed == 0
    assert rest == [5, 6, 7]


async def test_a_frame_is_what_a_page_shows_of_a_fact(act: MakeAct) -> None:
    """One message of text/event-stream: its id the place in the stream, its data one line of JSON."""
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        seq = await publish(bus, act(3, needs={"curiosity": 0.9, "reliability": 0.2}))
        news = [one async for one in _until(hub, seq)][-1]

    identity, data, *end = news.frames.decode().split("\n")
    said = json.loads(data.removeprefix("data: "))
    assert identity == f"id: {seq}"
    assert end == ["", ""]
    assert (said["kind"], said["cycle"], said["agent"], said["need"]) == ("action.taken", 3, "echo", "reliability")


async def _until(hub: LiveHub, seq: int) -> AsyncIterator[PageUpdate]:
    async for one in hub.news(0):
        yield one
        if one.after >= seq:
            return


async def test_a_page_that_comes_again_after_a_restart_misses_nothing(act: MakeAct) -> None:
    """What the new hub never had is read back from the stream; then it goes on live, each frame once."""
    journal = MemoryJournal()
    async with MemoryBus(journal) as bus:
        for cycle in range(1, 6):
            await publish(bus, act(cycle))
        hub = LiveHub()
        async with following(bus, hub):
            news = hub.news(2)
            back, _ = await taken(news, 5)
            await publish(bus, act(6))
            live, _ = await taken(hub.news(5), 6)

    assert back == [3, 4, 5]
    assert live == [6]


async def test_a_page_that_is_too_far_behind_is_told_how_much_it_misses(
    act: MakeAct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what is read back nothing is told twice, and what is left out is counted."""
    monkeypatch.setattr(hub_module, "MOST_READ", 3)
    async with MemoryBus() as bus:
        for cycle in range(1, 11):
            await publish(bus, act(cycle))
        hub = LiveHub()
        async with following(bus, hub):
            await publish(bus, act(11))
            found, missed = await taken(hub.news(2), 11)

    assert found == [11]
    assert missed == 8


async def test_a_flood_reaches_a_page_as_its_newest_frames(act: MakeAct, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a page can be sent at a time: the oldest are left out, and counted."""
    monkeypatch.setattr(hub_module, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(hub_module, "MOST_READ", 5)
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        for cycle in range(1, 101):
            await publish(bus, act(cycle))
        async with asyncio.timeout(30):
            while hub.last < 100:
                await asyncio.sleep(0)
        found, missed = await taken(hub.news(0), 100)

    assert found == [96, 97, 98, 99, 100]
    assert missed == 95


async def test_a_stream_that_was_made_anew_begins_a_page_anew(act: MakeAct) -> None:
    """Its places start again: a page that knows higher ones is told so, instead of waiting for them."""
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        for cycle in range(1, 9):
            await publish(bus, act(cycle))
    async with MemoryBus() as bus, following(bus, hub):
        await publish(bus, act(1))
        async with asyncio.timeout(30):
            first = await anext(hub.news(8))

    assert first.anew
    assert first.after <= 1


async def test_a_stream_that_is_replaced_under_an_open_page_begins_it_anew(act: MakeAct) -> None:
    """Also where the page is no further than the new stream: its places mean other facts now."""
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        await publish(bus, act(1))
        news = hub.news(0)
        await taken(news, 1)
        open_page = hub.news(1)
        async with asyncio.timeout(30):
            await anext(open_page)
    async with MemoryBus() as bus, following(bus, hub):
        for cycle in range(1, 5):
            await publish(bus, act(cycle))

        async with asyncio.timeout(30):
            async for one in open_page:
                if one.anew:
                    break

    assert one.anew


async def test_a_page_of_one_agent_is_told_of_no_other(act: MakeAct) -> None:
    """Neither live nor read back."""
    async with MemoryBus() as bus:
        for cycle in range(1, 4):
            await publish(bus, act(cycle, "one"))
            await publish(bus, act(cycle, "two"))
        hub = LiveHub()
        async with following(bus, hub):
            for cycle in range(4, 6):
                await publish(bus, act(cycle, "one"))
                await publish(bus, act(cycle, "two"))
            found, _ = await taken(hub.news(0, "two"), 10)

    assert found == [2, 4, 6, 8, 10]


async def test_what_comes_just_behind_an_event_comes_with_it(
    act: MakeAct, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """A page is told of a thought together with the act that it leads to at once: it draws both one time."""
    monkeypatch.setattr(hub_module, "TICK_SECONDS", 1.0)
    monkeypatch.setattr(hub_module, "GATHER_SECONDS", 0.5)
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub), aclosing(hub.news(0)) as news:
        await anext(news)  # the state of the bus
        told = asyncio.create_task(anext(news))
        await publish(bus, act(1))
        await until(lambda: hub.last == 1)
        await publish(bus, act(2))
        assert (await told).after == 2


async def test_a_page_that_names_kinds_is_told_of_no_other(act: MakeAct) -> None:
    """Neither live nor read back; of those that it names the kind and the cycle alone. One that names only unknown
    kinds is told of none."""
    kinds = frozenset({MarkWitnessed.TYPE, ActionTaken.TYPE}), frozenset({MarkWitnessed.TYPE})
    async with MemoryBus() as bus:
        await publish(bus, act(1))
        hub = LiveHub()
        async with following(bus, hub):
            await publish(bus, act(2))
            found, _ = await taken(hub.news(0, None, kinds[0]), 2)
            none, _ = await taken(hub.news(0, None, kinds[1]), 0)
            unknown, _ = await taken(hub.news(0, None, frozenset()), 0)
            brief = await anext(hub.news(1, None, kinds[0]))

    assert (found, none, unknown) == ([1, 2], [], [])
    assert json.loads(brief.frames.decode().split("data: ")[1]) == {"kind": "action.taken", "cycle": 2}


async def test_pages_are_told_that_the_bus_is_away_and_that_it_is_back(act: MakeAct, until: Until) -> None:
    """They wait meanwhile, and miss nothing of what was said."""
    journal = MemoryJournal()
    hub = LiveHub()
    async with MemoryBus(journal) as bus, following(bus, hub):
        await publish(bus, act(1))
        await until(lambda: hub.last == 1)
    hub.say("no run is in progress")
    news = hub.news(1)
    async with asyncio.timeout(30):
        away = await anext(news)
    async with MemoryBus(journal) as bus:
        await publish(bus, act(2))  # while nobody followed
        async with following(bus, hub):
            found, _ = await taken(news, 2)

    assert away.frames == b""
    assert hub.state == LIVE
    assert found == [2]


async def test_at_a_run_that_nobody_looks_at_no_event_is_decoded(act: MakeAct, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest wait as they came, as many as a page is sent at a time; the first page has their frames made."""
    made: list[int] = []
    monkeypatch.setattr(hub_module, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(hub_module, "frame", lambda event, seq: made.append(seq) or frame(event, seq))
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        for cycle in range(1, 21):
            await publish(bus, act(cycle))
        async with asyncio.timeout(30):
            while hub.last < 20:
                await asyncio.sleep(0)
        before = list(made)
        found, _ = await taken(hub.news(15), 20)
        await taken(hub.news(15), 20)

    assert (before, len(hub._ring)) == ([], 5)
    assert found == [16, 17, 18, 19, 20]
    assert sorted(made) == found


async def test_the_events_that_are_kept_are_bounded_in_bytes(act: MakeAct, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a page reads: one that shows another agent never has their frames made. The newest stays."""
    monkeypatch.setattr(hub_module, "MOST_BYTES", 5000)
    hub = LiveHub()
    hub._readers = 1
    async with MemoryBus() as bus, following(bus, hub):
        for cycle in range(1, 41):
            await publish(bus, act(cycle))
        async with asyncio.timeout(30):
            while hub.last < 40:
                await asyncio.sleep(0)

    assert sum(shown.size for shown in hub._ring) == hub._size <= 5000
    assert 1 <= len(hub._ring) < 40
    assert hub._ring[0].seq == hub._floor + 1


async def test_a_closed_hub_ends_every_page(act: MakeAct) -> None:
    """At once, also those that wait."""
    hub = LiveHub()
    async with MemoryBus() as bus, following(bus, hub):
        news = hub.news(0)
        waiting = asyncio.ensure_future(_exhausted(news))
        await asyncio.sleep(0)
        hub.close()

        async with asyncio.timeout(30):
            await waiting


async def _exhausted(news: AsyncIterator[PageUpdate]) -> None:
    async for _ in news:
        pass


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30), st.integers(1, 6), st.integers(1, 6))
@settings(deadline=None, max_examples=60)
def test_a_page_has_all_or_knows_what_it_lacks(steps: list[tuple[bool, int]], most: int, at_once: int) -> None:
    """Frames told and frames missed are together all there were, however often a page looks and the ring turns over."""
    hub = LiveHub()
    hub._epoch = "a stream"
    hub._readers = 1
    monkey = pytest.MonkeyPatch()
    monkey.setattr(hub_module, "MOST_KEPT", most)
    monkey.setattr(hub_module, "MOST_AT_ONCE", at_once)
    dropped = GoalDropped(id="dropped", source="conch/echo/1", agent="echo", goal="g")
    told, missed, after, count = [], 0, 0, 0

    async def look() -> None:
        nonlocal missed, after
        fresh = await hub._read_back(after, None, None) if after < hub._floor else hub._fresh(after, None, None)
        told.extend(places(fresh.frames))
        missed += fresh.missed
        after = fresh.after

    async def play() -> None:
        nonlocal count
        for looks, added in [*steps, (True, 0), (True, 0)]:
            for _ in range(added):
                count += 1
                hub._add(ReceivedEvent(Delivery(count, "", b"", 0.0), "echo", dropped))
            if looks:
                await look()

    try:
        asyncio.run(play())
    finally:
        monkey.undo()
    assert told == sorted(set(told))
    assert len(told) + missed == count

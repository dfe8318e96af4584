"""What is trimmed, what never is, and who is said to be in the way."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.bus import Bus, Delivery, MemoryBus, MemoryJournal
from conch.config.model import StreamRetentionSettings
from conch.consumer.group.lag import forget, report_position, standings
from conch.consumer.operations import retention
from conch.consumer.operations.retention import keep_trimmed, look, trim
from conch.experience import SqliteStore, StoreLocation
from conch_schemas import ActionTaken, GoalSet
from tests.durables import durable

if TYPE_CHECKING:
    from tests.conftest import Until


ACT = "conch.v1.echo.action.taken"
GOAL = "conch.v1.echo.goal.set"
KEEP = StreamRetentionSettings(days=30, gib=1000)
TINY = StreamRetentionSettings(days=30, gib=1e-9)
LATER = 31 * 86400.0


async def fill(bus: Bus, count: int, subject: str = ACT, size: int = 10) -> None:
    """`count` events of `size` bytes."""
    begin = (await bus.state()).last
    for number in range(begin, begin + count):
        await bus.publish(subject, b"x" * size, id=str(number))


async def first_after(
    bus: Bus, keep: StreamRetentionSettings, *, later: float = LATER, store: StoreLocation | None = None
) -> int:
    """Trim as of so many seconds from now; the first event that is left."""
    await trim(bus, keep, store, now=time.time() + later)
    return (await bus.state()).first


async def test_what_is_old_and_read_by_everybody_goes(bus: Bus) -> None:
    """The slowest consumer and the store say how far."""
    await fill(bus, 10)
    await report_position(bus, "fast", [ActionTaken], 10)
    await report_position(bus, "slow", [ActionTaken], 6)
    await report_position(bus, "store", [ActionTaken], 4)

    assert await first_after(bus, KEEP) == 5
    await report_position(bus, "store", [ActionTaken], 10)
    assert await first_after(bus, KEEP) == 7
    assert await first_after(bus, KEEP) == 7


async def test_what_is_young_stays(bus: Bus) -> None:
    """However much of it is read."""
    await fill(bus, 5)
    await report_position(bus, "store", [ActionTaken], 5)

    assert await first_after(bus, KEEP, later=0.0) == 1


async def test_nothing_unread_goes_though_there_is_no_room(bus: Bus) -> None:
    """Neither for want of room nor of age."""
    await fill(bus, 20, size=2000)
    await report_position(bus, "store", [ActionTaken], 20)
    await report_position(bus, "behind", [ActionTaken], 3)

    assert await first_after(bus, TINY, later=1e9) == 4


async def test_what_nobody_has_joined_stays(bus: Bus) -> None:
    """Without a store, here or anywhere, nobody can say what is recorded."""
    await fill(bus, 5)
    await report_position(bus, "reward", [ActionTaken], 5)

    assert await first_after(bus, TINY, later=1e9) == 1


async def test_the_stores_own_file_has_the_last_word(bus: Bus, tmp_path: Path) -> None:
    """A store that was put back from a backup has read less than it once said on the bus."""
    await fill(bus, 10)
    await report_position(bus, "store", [ActionTaken], 10)
    with SqliteStore(tmp_path / "store.db") as store:
        store.set_epoch((await bus.state()).epoch)
        store.set_position(2)

    assert await first_after(bus, KEEP, store=StoreLocation(tmp_path / "store.db")) == 3
    (tmp_path / "broken.db").write_bytes(b"no database")
    assert await first_after(bus, KEEP, store=StoreLocation(tmp_path / "broken.db")) == 3
    assert await first_after(bus, KEEP, store=StoreLocation(tmp_path / "absent.db")) == 11


async def test_a_consumer_of_rare_events_holds_nothing_up(bus: Bus) -> None:
    """It has read everything when nothing of its own is left, wherever it stood last."""
    await fill(bus, 1, GOAL)
    await fill(bus, 9)
    await report_position(bus, "store", [ActionTaken], 10)
    await report_position(bus, "rare", [GoalSet], 1)

    assert await first_after(bus, KEEP) == 11


async def test_what_an_agents_written_memory_lacks_stays(bus: Bus) -> None:
    """It is read again at the agent's next start; what is another agent's is not waited for."""
    await fill(bus, 4)
    await fill(bus, 4, "conch.v1.delta.action.taken")
    epoch = (await bus.state()).epoch
    await report_position(bus, "store", [ActionTaken], 8)
    await bus.put("agent/delta", json.dumps({"seq": 6, "epoch": epoch}).encode(), revision=0)
    revision = await bus.put("agent/echo", json.dumps({"seq": 4, "epoch": epoch}).encode(), revision=0)

    assert await first_after(bus, KEEP) == 7
    await bus.put("agent/echo", b"{", revision=revision)
    assert (await look(bus, KEEP, now=time.time() + LATER)).before == 1


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"seq":9,"epoch":"another"}', b'{"seq":null,"epoch":""}'])
async def test_a_place_that_means_nothing_is_the_start(bus: Bus, value: bytes) -> None:
    """Of a consumer that cannot be understood nothing is taken for read; of a reset one nothing is asked."""
    await fill(bus, 10)
    await report_position(bus, "store", [ActionTaken], 10)
    await bus.put("position/odd", value, revision=0)
    await bus.put("position/reset", b"", revision=0)

    assert await first_after(bus, KEEP) == 1
    await forget(bus, "odd")
    assert await first_after(bus, KEEP) == 11


async def test_a_durable_reader_counts_as_well(bus: Bus, until: Until) -> None:
    """Whoever reads with the bus's own acknowledgements."""
    await fill(bus, 10)
    await report_position(bus, "store", [ActionTaken], 10)
    await durable(bus, "theirs", [ACT], after=7)

    assert await first_after(bus, KEEP) == 8


@settings(max_examples=60, deadline=None)
@given(
    ages=st.lists(st.floats(0, 60), min_size=1, max_size=40).map(lambda ages: sorted(ages, reverse=True)),
    missing=st.sets(st.integers(1, 40)),
    read=st.integers(0, 40),
)
async def test_exactly_what_is_old_and_read_goes(ages: list[float], missing: set[int], read: int) -> None:
    """For any ages, any gaps and any place of a reader."""
    journal = MemoryJournal(last=len(ages))
    for seq, age in enumerate(ages, 1):
        if seq not in missing:
            journal.events[seq] = Delivery(seq, ACT, b"", 1e9 - age * 86400)
    there, read = set(journal.events), min(read, len(ages))

    async with MemoryBus(journal) as bus:
        await report_position(bus, "store", [ActionTaken], read)
        await trim(bus, KEEP, None, now=1e9)

    unread = any(seq > read for seq in there)
    assert set(journal.events) == {seq for seq in there if ages[seq - 1] <= 30 or (unread and seq > read)}


async def test_what_the_bridge_has_not_read_is_kept_however_old(bus: Bus) -> None:
    """A broker that is away for long finds everything that there is room for."""
    await fill(bus, 10)
    await report_position(bus, "store", [ActionTaken], 10)
    await report_position(bus, "mqtt", [], 4)

    assert await first_after(bus, KEEP) == 5


async def test_what_the_bridge_has_not_read_takes_no_more_than_the_room(bus: Bus) -> None:
    """A broker that is away for good fills no disk: beyond the room the oldest go, and that is said before."""
    await fill(bus, 100, size=2000)
    await report_position(bus, "store", [ActionTaken], 100)
    await report_position(bus, "mqtt", [], 4)
    room = StreamRetentionSettings(days=30, gib=(await bus.state()).bytes / 2 / 2**30)

    [held] = (await look(bus, room)).held
    first = await first_after(bus, room)

    assert 50 <= first <= 55
    assert (held.name, held.blocked) == ("mqtt", 0)
    assert "trimmed beyond bus.keep.gib alone" in held.sentence


# -- who is in the way -------------------------------------------------------------------------------------------------


async def test_who_is_far_behind_is_named_before_it_is_in_the_way(bus: Bus) -> None:
    """After two days, or half of what is kept; nobody who is level."""
    await fill(bus, 10)
    await report_position(bus, "store", [ActionTaken], 10)
    await report_position(bus, "joy", [ActionTaken], 4)

    early = await look(bus, KEEP, now=time.time() + 1.9 * 86400)
    late = await look(bus, KEEP, now=time.time() + 2.1 * 86400)
    passed = await look(bus, KEEP, now=time.time() + LATER)

    assert early.held == ()
    assert [(one.name, one.seq, one.last, one.blocked) for one in late.held] == [("joy", 4, 10, 0)]
    assert [(one.name, one.blocked) for one in passed.held] == [("joy", 6)]
    assert "conch consumer forget joy" in late.held[0].sentence
    assert "6 events that bus.keep would drop stay for it" in passed.held[0].sentence


async def test_who_has_left_half_of_the_room_unread_is_named(bus: Bus) -> None:
    """By size as by age; the one furthest behind comes first."""
    await fill(bus, 100, size=2000)
    room = (await bus.state()).bytes / 2**30
    await report_position(bus, "store", [ActionTaken], 100)
    await report_position(bus, "joy", [ActionTaken], 40)
    await report_position(bus, "grief", [ActionTaken], 5)
    await report_position(bus, "calm", [ActionTaken], 70)

    found = await look(bus, StreamRetentionSettings(days=30, gib=room))

    assert [(one.name, one.blocked) for one in found.held] == [("grief", 0), ("joy", 0)]


async def test_it_is_logged_once_until_it_changes(bus: Bus, until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line a minute for days would hide what else there is to see."""
    monkeypatch.setattr(retention, "KEEP_SECONDS", 0.001)
    await fill(bus, 10, size=2000)
    await report_position(bus, "store", [ActionTaken], 10)
    await report_position(bus, "joy", [ActionTaken], 4)

    with structlog.testing.capture_logs() as lines:
        keeping = asyncio.create_task(keep_trimmed(bus, TINY, StoreLocation(Path("/nowhere/store.db"))))
        await until(lambda: any(line["event"] == "bus.trimmed" for line in lines))
        await until(lambda: any(line["event"] == "bus.keep_held" for line in lines))
        await report_position(bus, "joy", [ActionTaken], 5)
        await until(lambda: sum(line["event"] == "bus.trimmed" for line in lines) == 2)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    told = [(line["log_level"], line["consumer"]) for line in lines if line["event"] == "bus.keep_held"]
    assert told == [("warning", "joy")]


# -- how far everybody is ----------------------------------------------------------------------------------------------


async def test_lag_is_what_concerns_a_consumer(bus: Bus) -> None:
    """Counted behind its place; whoever does not say what it reads is taken to read everything."""
    await fill(bus, 4)
    await fill(bus, 3, GOAL)
    await report_position(bus, "acts", [ActionTaken], 2)
    await report_position(bus, "goals", [GoalSet, ActionTaken], 5)
    epoch = (await bus.state()).epoch
    await bus.put("position/older", json.dumps({"seq": 1, "epoch": epoch}).encode(), revision=0)
    await durable(bus, "theirs", [GOAL], after=6)

    found = await standings(bus)

    assert [(one.name, one.seq, one.lag) for one in found] == [
        ("acts", 2, 2),
        ("goals", 5, 2),
        ("older", 1, 6),
        ("theirs", 6, 1),
    ]


async def test_the_workers_of_one_consumer_are_one(bus: Bus) -> None:
    """The place is that of the last of them, the lag an estimate: 0 only where nothing waits for any of them."""
    await fill(bus, 8)
    await fill(bus, 1, GOAL)
    epoch = (await bus.state()).epoch

    async def told(*shares: int) -> tuple[int, int]:
        entry = await bus.get("position/reward")
        value = {"seq": min(shares), "epoch": epoch, "kinds": ["action.taken"]}
        value |= {"shares": {str(number): (seq, "") for number, seq in enumerate(shares)}}
        revision = entry.revision if entry is not None else 0
        await bus.put("position/reward", json.dumps(value).encode(), revision=revision)
        [found] = await standings(bus)
        return found.seq, found.lag

    assert await told(2, 8) == (2, 3)
    assert await told(7, 8, 8, 8, 8) == (7, 1)
    assert await told(8, 8) == (8, 0)
    assert await told(8, 99) == (8, 0)


async def test_nothing_is_kept_of_who_was_forgotten(bus: Bus) -> None:
    """Place, states and what is known before its letters are gone, its durable as well; others' are not."""
    await fill(bus, 3)
    for name in ("joy", "joyful"):
        await report_position(bus, name, [ActionTaken], 1)
        for key in (f"state/{name}/echo", f"before/{name}/echo/2"):
            await bus.put(key, b'{"seq":1,"epoch":"e"}', revision=0)
    await durable(bus, "joy", [ACT], after=0)

    assert await forget(bus, "joy")
    assert not await forget(bus, "joy")
    assert not await forget(bus, "nobody")

    assert [one.name for one in await standings(bus)] == ["joyful"]
    left = [key for key in await bus.keys() if (entry := await bus.get(key)) is not None and entry.value]
    assert left == ["before/joyful/echo/2", "position/joyful", "state/joyful/echo"]

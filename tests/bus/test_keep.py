"""What is trimmed, and what never is."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from conch.bus import Bus, Delivery, MemoryBus, MemoryJournal
from conch.bus.keep import keep

SUBJECT = "conch.v1.echo.action.taken"
RARE = "conch.v1.echo.goal.set"
MUCH = 1000.0


async def fill(bus: Bus, count: int, size: int = 10) -> None:
    """`count` events of `size` bytes."""
    for number in range(count):
        await bus.publish(SUBJECT, b"x" * size, id=str(number))


async def read_up_to(bus: Bus, name: str, seq: int, until: Any, subject: str = SUBJECT) -> None:
    """A durable reader that has acknowledged everything up to `seq`."""
    async with bus.consume(name, [subject], after=0) as reader:
        taken = 0
        while taken < seq:
            taken = (await reader.get(1))[-1].seq
        if taken:
            await reader.ack(taken)

        async def done() -> bool:
            return {state.name: state.acknowledged for state in await bus.readers()}[name] == seq

        await until(done)


async def test_what_is_old_and_read_by_everybody_goes(bus: Bus, until: Any) -> None:
    """The slowest reader and the store say how far."""
    await fill(bus, 10)
    await read_up_to(bus, "fast", 10, until)
    await read_up_to(bus, "slow", 6, until)
    later = time.time() + 31 * 86400

    assert await keep(bus, days=30, gib=MUCH, floor=4, now=later) == 4
    assert await keep(bus, days=30, gib=MUCH, floor=10, now=later) == 2
    assert await keep(bus, days=30, gib=MUCH, floor=10, now=later) == 0

    assert (await bus.state()).first == 7


async def test_what_is_young_stays(bus: Bus, until: Any) -> None:
    """However much of it is read."""
    await fill(bus, 5)
    await read_up_to(bus, "reader", 5, until)

    assert await keep(bus, days=30, gib=MUCH, floor=5) == 0


async def test_what_is_beyond_the_room_goes_though_it_is_young(bus: Bus, until: Any) -> None:
    """The newest stay, about as many as fit."""
    await fill(bus, 100, size=2000)
    await read_up_to(bus, "reader", 100, until)
    half = (await bus.state()).bytes / 2 / 2**30

    await keep(bus, days=30, gib=half, floor=100)

    state = await bus.state()
    assert 45 <= state.messages <= 50
    assert state.last == 100


async def test_nothing_unread_goes_though_there_is_no_room(bus: Bus, until: Any) -> None:
    """A reader that is behind holds all the rest."""
    await fill(bus, 20, size=2000)
    await read_up_to(bus, "reader", 20, until)
    await read_up_to(bus, "behind", 3, until)

    assert await keep(bus, days=30, gib=1e-9, floor=20, now=time.time() + 1e9) == 3


async def test_without_readers_nothing_goes(bus: Bus) -> None:
    """Nobody can say what is read."""
    await fill(bus, 5)

    assert await keep(bus, days=30, gib=1e-9, floor=5, now=time.time() + 1e9) == 0


async def test_a_reader_of_rare_events_holds_nothing_up(bus: Bus, until: Any) -> None:
    """It has read everything when nothing of its own is left."""
    await bus.publish(RARE, b"", id="rare")
    await fill(bus, 9)
    await read_up_to(bus, "rare", 1, until, RARE)
    await read_up_to(bus, "reader", 10, until)

    assert await keep(bus, days=30, gib=MUCH, floor=10, now=time.time() + 1e9) == 10


async def test_a_consumer_whose_durable_is_gone_holds_what_it_has_not_read(bus: Bus, until: Any) -> None:
    """Its position in the bucket speaks for it; one that cannot be read says «nothing read», a reset one nothing."""
    await fill(bus, 10)
    await read_up_to(bus, "reader", 10, until)
    await bus.put("position/absent", json.dumps({"seq": 2}).encode(), revision=0)
    await bus.put("position/reset", b"", revision=0)

    assert await keep(bus, days=30, gib=MUCH, floor=10, now=time.time() + 1e9) == 2
    await bus.put("position/broken", b"{", revision=0)
    assert await keep(bus, days=30, gib=MUCH, floor=10, now=time.time() + 1e9) == 0


@settings(max_examples=60, deadline=None)
@given(
    ages=st.lists(st.floats(0, 60), min_size=1, max_size=40).map(lambda ages: sorted(ages, reverse=True)),
    missing=st.sets(st.integers(1, 40)),
    read=st.integers(0, 40),
)
async def test_exactly_what_is_old_and_read_goes(ages: list[float], missing: set[int], read: int) -> None:
    """For any ages, any gaps and any place of the reader."""
    journal = MemoryJournal(last=len(ages))
    for seq, age in enumerate(ages, 1):
        if seq not in missing:
            journal.events[seq] = Delivery(seq, SUBJECT, b"", 1e9 - age * 86400)
    read = min(read, len(ages))

    async with MemoryBus(journal) as bus, bus.consume("reader", [SUBJECT], after=read):
        await keep(bus, days=30, gib=MUCH, floor=len(ages), now=1e9)

    unread = [seq for seq in range(read + 1, len(ages) + 1) if seq not in missing]
    left = {seq for seq, age in enumerate(ages, 1) if seq not in missing and (age <= 30 or (unread and seq > read))}
    assert set(journal.events) == left


async def test_what_the_bridge_has_not_read_is_kept_however_old(bus: Bus, until: Any) -> None:
    """A broker that is away for long finds everything that there is room for."""
    await fill(bus, 10)
    await read_up_to(bus, "reader", 10, until)
    await bus.put("position/mqtt", b'{"seq": 4}', revision=0)

    await keep(bus, days=30, gib=MUCH, floor=10, now=time.time() + 31 * 86400)

    assert (await bus.state()).first == 5


async def test_what_the_bridge_has_not_read_takes_no_more_than_the_room(bus: Bus, until: Any) -> None:
    """A broker that is away for good fills no disk: beyond the room the oldest go."""
    await fill(bus, 100, size=2000)
    await read_up_to(bus, "reader", 100, until)
    await bus.put("position/mqtt", b'{"seq": 4}', revision=0)
    half = (await bus.state()).bytes / 2 / 2**30

    await keep(bus, days=30, gib=half, floor=100, now=time.time() + 31 * 86400)

    assert 45 <= (await bus.state()).messages <= 50

"""What is old, and what is beyond the room."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from conch.bus import Bus, Delivery, MemoryBus, MemoryJournal
from conch.bus.retention import beyond, older_than

SUBJECT = "conch.v1.echo.action.taken"


async def fill(bus: Bus, count: int, size: int = 10) -> None:
    """`count` events of `size` bytes."""
    for number in range(count):
        await bus.publish(SUBJECT, b"x" * size, id=str(number))


async def test_what_is_young_is_not_old(bus: Bus) -> None:
    """All of it is young today, and old a month later."""
    await fill(bus, 5)
    state = await bus.state()

    assert await older_than(bus, state, days=30) == 1
    assert await older_than(bus, state, days=30, now=time.time() + 31 * 86400) == 6


async def test_the_newest_fit(bus: Bus) -> None:
    """About as many as there is room for."""
    await fill(bus, 100, size=2000)
    state = await bus.state()

    assert beyond(state, gib=state.bytes / 2**30) == 1
    assert 50 <= beyond(state, gib=state.bytes / 2 / 2**30) <= 55


@settings(max_examples=60, deadline=None)
@given(
    ages=st.lists(st.floats(0, 60), min_size=1, max_size=40).map(lambda ages: sorted(ages, reverse=True)),
    missing=st.sets(st.integers(1, 40)),
)
async def test_exactly_what_is_old_is_old(ages: list[float], missing: set[int]) -> None:
    """For any ages and any gaps."""
    journal = MemoryJournal(last=len(ages))
    for seq, age in enumerate(ages, 1):
        if seq not in missing:
            journal.events[seq] = Delivery(seq, SUBJECT, b"", 1e9 - age * 86400)

    async with MemoryBus(journal) as bus:
        before = await older_than(bus, await bus.state(), days=30, now=1e9)

    assert {seq for seq in journal.events if seq >= before} == {seq for seq in journal.events if ages[seq - 1] <= 30}

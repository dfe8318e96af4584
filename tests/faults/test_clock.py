"""A clock that jumps: order is the stream's, waiting is by the clock that only goes forward, and a deadline that came
too soon is made good when the part comes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, MemoryBus, shared_subscription
from conch_schemas import ExperienceRecorded, NeedsChanged, NoveltyMeasured, RewardAssigned
from tests.faults.acts import OF_CURIOSITY, PARTS, SCORERS, act, consuming, context, ready, stored, streamed, weights
from tests.faults.conftest import either_way
from tests.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractAsyncContextManager

    from tests.conftest import Until
    from tests.faults.load import Counted, Load


HOUR = timedelta(hours=1)


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """`jump(HOUR)`: the wall clock of this process is so far off from now on."""
    off = timedelta()

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + off

    def by(offset: timedelta) -> None:
        nonlocal off
        off = offset

    right = time.time
    monkeypatch.setattr("conch_services.store.consumer.datetime", Clock)
    monkeypatch.setattr(time, "time", lambda: right() + off.total_seconds())
    return by


async def publish(bus: Bus, *events: Any) -> None:
    """Put events on the bus."""
    for event in events:
        await bus.publish(*ready(event)[:2], id=event.id)


async def test_a_clock_that_jumps_to_and_fro_costs_the_store_nothing(
    tmp_path: Path, jump: Callable[[timedelta], None], until: Until
) -> None:
    """The store's clock and the producer's are each an hour off, now so, now so: every act is recorded in the end with
    all of its scores, each of them once."""
    own, draw = context(tmp_path), random.Random(8)
    async with (
        MemoryBus() as bus,
        shared_subscription(bus) as shared_events,
        consuming(shared_events, own, [*SCORERS, "store"]),
    ):
        await publish(bus, weights(own))
        for cycle in range(60):
            jump(draw.choice((-HOUR, 0 * HOUR, HOUR)))
            await publish(bus, act(cycle, datetime.now(UTC) + draw.choice((-HOUR, 0 * HOUR, HOUR))))
            await until(lambda cycle=cycle: len(stored(tmp_path).acts) == cycle + 1)
        await until(lambda: len(stored(tmp_path).complete) == 60)
        found, stream = stored(tmp_path), await streamed(bus)

    assert len(found.scores) == found.rows == PARTS * 60
    assert set(stream.times(ExperienceRecorded, RewardAssigned, NeedsChanged, NoveltyMeasured).values()) == {1}


@pytest.mark.parametrize(("off", "revisions"), [(HOUR, [1, 2]), (-HOUR, [1])], ids=["ahead", "behind"])
async def test_a_part_that_the_clock_held_for_late_counts_all_the_same(
    off: timedelta, revisions: list[int], tmp_path: Path, jump: Callable[[timedelta], None], until: Until
) -> None:
    """With the clock an hour ahead the deadline passes at once, and the act is recorded without that part; the part
    comes and the record is revised. With the clock an hour behind it is waited for. Both end with the same scores."""
    own = context(tmp_path)
    async with (
        MemoryBus() as bus,
        shared_subscription(bus) as shared_events,
        consuming(shared_events, own, ["reward", "needs", "store"]),
    ):
        await publish(bus, weights(own), act(0))
        await until(lambda: len(stored(tmp_path).scores) == PARTS - OF_CURIOSITY)
        jump(off)
        await publish(bus, weights(own).model_copy(update={"id": "wakes the store"}))
        if len(revisions) > 1:
            await until(lambda: stored(tmp_path).revisions)
        async with consuming(shared_events, own, ["curiosity"]):
            await until(lambda: said_complete(bus))
        recorded = (await streamed(bus)).of(ExperienceRecorded)

    assert [experience.revision for experience in recorded] == revisions
    assert [score.status for score in recorded[-1].scores].count("timeout") == 0
    assert len(stored(tmp_path).scores) == PARTS


async def said_complete(bus: Bus) -> bool:
    """Whether a complete experience is on the stream."""
    return any(experience.complete for experience in (await streamed(bus)).of(ExperienceRecorded))


@either_way
async def test_publishers_do_not_ask_the_wall_clock(
    proxy: Proxy,
    load_at: Callable[[str], AbstractAsyncContextManager[Load]],
    audit: Callable[[Load], Awaitable[Counted]],
    until: Until,
    jump: Callable[[timedelta], None],
) -> None:
    """It jumps by hours while their connection is cut: what is sent again is stored once, and soon."""
    draw = random.Random(9)
    async with load_at(proxy.url) as load:
        for _ in range(6):
            proxy.down.cut_at(b'"stream":"CONCH"', draw.randrange(1, 20))
            jump(draw.choice((-3 * HOUR, 3 * HOUR)))
            await until(lambda: not proxy.down.armed)
            assert await load.recovered() < 10

    found = await audit(load)
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)

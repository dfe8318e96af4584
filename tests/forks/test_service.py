"""The service forks cycles that are worth it, within its budget, while their agent is idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.bus import MemoryBus, MemoryJournal, shared_subscription
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.experience import store_location
from conch.tasks import background
from conch.testing import make_action_taken, make_experience_recorded
from conch_schemas import (
    Action,
    Event,
    ExperienceRecorded,
    ForkScored,
    Part,
    RewardAssigned,
    Score,
    Usage,
    WeightsSet,
    decode,
    encode,
    subject_filter,
    subject_of,
)
from conch_services.forks.choose import HOUR, MOST_WAITING, ForkQueue, HourlyRate
from conch_services.forks.service import ForkService

if TYPE_CHECKING:
    from tests.forks.conftest import Recorded


def experience(cycle: int, total: float = 0.0, *, valid: bool = True, **changes: Any) -> ExperienceRecorded:
    action = Action(kind="DO_NOTHING" if valid else "INVALID", valid=valid, reason=None if valid else "no action")
    return make_experience_recorded(make_action_taken(cycle, action=action), total, **changes)


def test_invalid_replies_come_first_then_what_is_far_from_the_mean() -> None:
    """A total near the agent's mean is not worth a fork, nor is a later revision of one that was heard."""
    queue = ForkQueue(0.3)
    for cycle in range(10):
        queue.hear(experience(cycle, 0.1))
    queue.hear(experience(10, -0.9))
    queue.hear(experience(11, 0.1, valid=False))
    queue.hear(experience(12, 0.9, revision=2))

    assert [queue.take(lambda _: True) for _ in range(3)] == [("echo", 11), ("echo", 10), None]


def test_a_fork_that_was_ended_is_made_again() -> None:
    """What is put back waits before the others."""
    queue = ForkQueue(0.3)
    for cycle, total in ((0, 0.0), (1, 0.9), (2, -0.9)):
        queue.hear(experience(cycle, total))
    first = queue.take(lambda _: True)
    assert first is not None

    queue.put_back(*first)

    assert queue.take(lambda _: True) == first


def test_an_agent_that_is_not_ready_waits() -> None:
    """What waits of it stays until it is."""
    queue = ForkQueue(0.3)
    queue.hear(experience(1, valid=False))

    assert queue.take(lambda _: False) is None
    assert queue.take(lambda agent: agent == "echo") == ("echo", 1)


@given(st.lists(st.floats(-1, 1), max_size=400))
def test_the_queue_is_bounded(totals: list[float]) -> None:
    """However many are heard, at most MOST_WAITING wait."""
    queue = ForkQueue(0.01)
    for cycle, total in enumerate(totals):
        queue.hear(experience(cycle, total))

    assert len(queue) <= MOST_WAITING


@given(st.lists(st.floats(0, 1000), max_size=50), st.integers(1, 5))
def test_no_hour_has_more_than_its_rate(pauses: list[float], most: int) -> None:
    """Of uses that ask before, no 3,600 seconds have more than the limit."""
    rate, now, taken = HourlyRate(most), 0.0, []
    for pause in pauses:
        now += pause
        if rate.left(now) > 0:
            rate.took(now)
            taken.append(now)

    for begin in taken:
        assert sum(begin <= at < begin + HOUR for at in taken) <= most


class Forked:
    """A bus with a service on it, and the store of the home that it reads."""

    def __init__(self, recorded: Recorded, bus: MemoryBus, settings: Settings) -> None:
        self._recorded, self.bus, self.settings = recorded, bus, settings

    async def say(self, event: Event) -> None:
        await self.bus.publish(subject_of(event), encode(event), id=event.id)

    async def candidates(self, number: int) -> list[ForkScored]:
        """The first so many candidates, once they are published."""
        async with asyncio.timeout(30):
            async with self.bus.follow([subject_filter(ForkScored)], after=0) as reader:
                found: list[ForkScored] = []
                while len(found) < number:
                    found += [one for got in await reader.get() if isinstance(one := decode(got.data), ForkScored)]
        return found

    async def count(self) -> int:
        return await self.bus.count([subject_filter(ForkScored)], after=0)


@asynccontextmanager
async def serving(recorded: Recorded, before: Sequence[ForkScored] = (), **forks: Any) -> AsyncIterator[Forked]:
    """The service over a cycle that is kept and in the store, with four replies of a script, and the candidates that
    the store has from `before`."""
    found = await recorded.cycle()
    recorded.settings |= {"forks": {"per_hour": 100, "idle": 0, **forks}}
    settings = recorded.scripted(["no", *(f"DO_NOTHING: {number}" for number in range(4))])
    parts = (Part(component="format", weight=1.0, range=(-1, 0.5), scorer="reward"),)
    score = Score(component="format", value=0.5, range=(-1, 0.5), status="scored", scorer="reward", version="2")
    act = found.act
    weights = WeightsSet(id="w", source=act.source, agent="echo", version="w1", parts=parts)
    reward = RewardAssigned(
        id="r", source=act.source, agent="echo", cycle=act.cycle, action_id=act.action_id, scorer="reward",
        version="2", scores=(score,),
    )  # fmt: skip
    with store_location(None, recorded.home.path).writer() as store:
        facts: list[tuple[int, Event]] = list(enumerate([weights, act, reward, *before], start=1))
        store.apply(facts, upto=len(facts), now=act.time)
    async with MemoryBus(MemoryJournal()) as bus, shared_subscription(bus) as shared_events:
        stop = asyncio.Event()
        service = ForkService(ServiceContext(settings, recorded.home.path, since=0))
        async with background(service.run(shared_events, stop), name="forks") as running:
            yield Forked(recorded, bus, settings)
            stop.set()
            await running


async def test_a_cycle_that_is_worth_it_is_forked(recorded: Recorded) -> None:
    """An invalid reply is forked with as many candidates as are set, each with a seed of its own."""
    async with serving(recorded, candidates=3) as forked:
        await forked.say(experience(3, valid=False))

        made = await forked.candidates(3)

        assert [one.seed for one in made] == [1, 2, 3]
        assert {one.cycle for one in made} == {3}


async def test_the_budget_of_an_hour_bounds_the_candidates(recorded: Recorded) -> None:
    """Beyond `forks.per_hour` no candidate is made, whatever waits."""
    async with serving(recorded, candidates=4, per_hour=2) as forked:
        await forked.say(experience(3, valid=False))
        await forked.candidates(2)
        await forked.say(experience(4, valid=False))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await forked.candidates(3)

        assert await forked.count() == 2


async def test_a_cycle_waits_for_room_in_the_hour(recorded: Recorded) -> None:
    """The first cycle after a restart too: that the hour is full is known once the store has been read."""
    before = await made_before(recorded, 3597 / 3600)
    async with serving(recorded, before, candidates=1, per_hour=1) as forked:
        await forked.say(experience(3, valid=False))

        [made] = await forked.candidates(1)

        assert made.cycle == 3


async def made_before(recorded: Recorded, *hours: float, tokens: int = 0) -> list[ForkScored]:
    """Candidates that were made so many hours ago, each with these tokens."""
    [one] = await recorded.fork("DO_NOTHING: before")
    usage = Usage(input_tokens=tokens)
    return [
        one.model_copy(update={"id": f"before-{ago}", "time": one.time - timedelta(hours=ago), "usage": usage})
        for ago in hours
    ]


async def test_a_restart_begins_no_new_hour(recorded: Recorded) -> None:
    """Candidates that an earlier process made within the hour count, older ones do not."""
    before = await made_before(recorded, 2.0, 0.75, 0.5)
    async with serving(recorded, before, candidates=4, per_hour=3) as forked:
        await forked.say(experience(3, valid=False))
        await forked.candidates(1)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await forked.candidates(2)


async def test_a_restart_forgets_no_tokens(recorded: Recorded) -> None:
    """Tokens of candidates that an earlier process made within the day count to the agent's limit."""
    recorded.settings["budget"] = {"tokens_per_day": 1000}
    before = await made_before(recorded, 23.0, 2.0, tokens=500)
    async with serving(recorded, before) as forked:
        await forked.say(experience(3, valid=False))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await forked.candidates(1)


async def test_an_agent_that_acts_is_not_forked(recorded: Recorded) -> None:
    """While an agent does something, no cycle of it is forked."""
    async with serving(recorded, candidates=1, idle=3600) as forked:
        await forked.say(make_action_taken(5))
        await forked.say(experience(3, valid=False))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await forked.candidates(1)

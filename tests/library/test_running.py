"""Consumers and a whole agent inside `async with`, on both buses."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path

import pytest
from pydantic import BaseModel

import conch
from conch.bus import Bus
from conch.consumer.group.shared import SharedConsumer
from conch.errors import BusError, ConchError, ContractError, HomeBusyError
from conch.retry import Backoff
from conch.testing import make_action_taken
from conch_schemas import (
    ActionTaken,
    CycleReflected,
    ExperienceRecorded,
    RewardAssigned,
    Score,
    ThoughtFormed,
    Usage,
    decode,
    subject_filter,
)
from tests.library.conftest import MakeHome

REST = "DO_NOTHING: rest"
ENDLESS = [REST] * 100_000
RULE = """
from conch import rule

@rule(weight=0.5)
def always(action) -> float:
    return 1.0
"""


@conch.consumer(ActionTaken, version="1")
def joy(action: ActionTaken) -> RewardAssigned:
    """One fact for each act."""
    score = Score(component="joy", value=1.0, range=(0, 1), status="scored", scorer="joy", version="1")
    return conch.follow(action, RewardAssigned, consumer="joy", version="1", scorer="joy", scores=(score,))


class Count(BaseModel):
    """How many acts there were."""

    acts: int = 0


@conch.consumer(ActionTaken, version="1", state=Count)
def counted(state: Count, action: ActionTaken) -> tuple[Count, RewardAssigned]:
    """A fold: scores an act with how many there were."""
    after = Count(acts=state.acts + 1)
    score = Score(component="counted", value=after.acts, range=(0, 100), status="scored", scorer="counted", version="1")
    fact = conch.follow(action, RewardAssigned, consumer="counted", version="1", scorer="counted", scores=(score,))
    return after, fact


class OwnMind:
    """A mind of a test's own: thinks what it is told to, or raises."""

    kind, model, learns = "own", "own-1", False

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.closed = error, False

    async def complete(self, prompt: conch.Prompt) -> conch.Completion:
        """The same words to everything."""
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return conch.Completion(text=REST, finish_reason="stop", usage=Usage(), model=self.model, ms=0.0)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Nothing."""

    async def close(self) -> None:
        """It is over."""
        self.closed = True


async def scores(bus: Bus) -> list[tuple[str, float | None]]:
    """Scorer and value of each score on the stream, in its order."""
    events = [decode(delivery.data) async for delivery in bus.read([subject_filter(RewardAssigned)])]
    return [(event.scorer, event.scores[0].value) for event in events if isinstance(event, RewardAssigned)]


async def test_a_whole_agent_runs_from_thought_to_experience(bus: Bus) -> None:
    """On either bus: its cycle, every built-in score, and the store that joins them."""
    async with asyncio.timeout(60), conch.running(bus, mind=[REST, REST]) as run:
        thoughts = [event async for event in run.events(ThoughtFormed)]
        experiences = [event async for event in run.events(ExperienceRecorded)]

    assert [thought.cycle for thought in thoughts] == [0, 1]
    assert {experience.cycle for experience in experiences if experience.complete} == {0, 1}


async def test_consumers_handle_what_is_there_and_what_comes(bus: Bus) -> None:
    """`handled` waits for the events that were published before it, each time that it is asked."""
    await conch.publish(bus, make_action_taken(cycle=1))

    async with asyncio.timeout(60), conch.consuming(bus, joy, counted) as run:
        await run.handled()
        before = await scores(bus)
        await conch.publish(bus, make_action_taken(cycle=2))
        await run.handled()

    assert sorted(before) == [("counted", 1), ("joy", 1)]
    assert sorted(await scores(bus)) == [("counted", 1), ("counted", 2), ("joy", 1), ("joy", 1)]


async def test_a_consumer_goes_on_where_it_stopped_with_its_state(bus: Bus) -> None:
    """Position and state are written down when the block is left."""
    for cycle in (1, 2):
        await conch.publish(bus, make_action_taken(cycle=cycle))
        async with asyncio.timeout(60), conch.consuming(bus, counted) as run:
            await run.handled()

    assert await scores(bus) == [("counted", 1), ("counted", 2)]


async def test_a_consumer_of_ones_own_runs_beside_the_agent() -> None:
    """It reads the agent's acts like the built-in ones do."""
    async with asyncio.timeout(60), conch.MemoryBus() as bus, conch.running(bus, mind=[REST], consumers=[joy]) as run:
        rewards = [event async for event in run.events(RewardAssigned)]

    assert "joy" in {reward.scorer for reward in rewards}


async def test_a_rules_file_has_its_weight_in_the_total(tmp_path: Path) -> None:
    """In a process of its own, as with `conch run --rules`."""
    file = tmp_path / "always.py"
    file.write_text(RULE)

    async with asyncio.timeout(60), conch.MemoryBus() as bus, conch.running(bus, mind=[REST], rules=[file]) as run:
        [experience] = [event async for event in run.events(ExperienceRecorded) if event.complete]

    [score] = [score for score in experience.scores if score.component == "always"]
    assert (score.value, score.weight) == (1.0, 0.5)


async def test_a_rules_file_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    """A program named it: it does not run without it."""
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")

    with pytest.raises(ContractError, match="ZeroDivisionError"):
        async with conch.MemoryBus() as bus, conch.running(bus, mind=[REST], rules=[file]):
            pass


async def test_a_mind_of_ones_own_thinks_and_is_closed_at_the_end() -> None:
    """Whatever has the methods of `conch.Mind`."""
    mind = OwnMind()

    async with asyncio.timeout(60), conch.MemoryBus() as bus, conch.running(bus, mind=mind, cycles=1) as run:
        [act] = [event async for event in run.events(ActionTaken)]

    assert (act.model, act.raw, mind.closed) == ("own-1", REST, True)


async def test_what_ends_the_agent_ends_the_block_as_itself() -> None:
    """Not as a group: `except` takes the error that the mind raised."""
    mind = OwnMind(LookupError("no thought"))

    with pytest.raises(LookupError, match="no thought"):
        async with asyncio.timeout(60), conch.MemoryBus() as bus, conch.running(bus, mind=mind) as run:
            await run.finished()


async def test_a_consumer_that_stays_down_ends_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program nobody reads a status: it must not look as if the consumer ran."""

    async def break_(*_: object) -> None:
        raise RuntimeError("broken inside")

    monkeypatch.setattr(importlib.import_module("conch.consumer.host"), "CONSUMER", Backoff((0.0,)))
    monkeypatch.setattr(SharedConsumer, "run", break_)

    with pytest.raises(ConchError, match=r"joy stays down: .*broken inside"):
        async with asyncio.timeout(60), conch.MemoryBus() as bus, conch.consuming(bus, joy) as run:
            await run.handled()


async def test_an_error_of_the_block_comes_out_as_itself_and_ends_the_run() -> None:
    """A failed assertion in a test is that assertion."""
    with pytest.raises(AssertionError, match="mine"):
        async with asyncio.timeout(60), conch.MemoryBus() as bus, conch.running(bus, mind=ENDLESS):
            raise AssertionError("mine")

    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("conch.")] == []


async def test_a_cancelled_run_leaves_no_task_behind() -> None:
    """`asyncio.timeout` around it ends everything."""
    with pytest.raises(TimeoutError):
        async with conch.MemoryBus() as bus, asyncio.timeout(0.5), conch.running(bus, mind=ENDLESS) as run:
            await run.finished()

    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("conch.")] == []


async def test_an_agent_that_is_left_finishes_its_cycle() -> None:
    """Leaving is stopping in order: no cycle is cut short."""
    async with asyncio.timeout(60), conch.MemoryBus() as bus:
        async with conch.running(bus, mind=ENDLESS) as run:
            async for _ in run.events(ThoughtFormed):
                break
        begun = await bus.count([subject_filter(ThoughtFormed)], after=0)

        assert begun > 0
        assert await bus.count([subject_filter(CycleReflected)], after=0) == begun


async def test_a_home_goes_on_with_the_next_cycle_on_a_bus_made_anew(make_home: MakeHome) -> None:
    """A memory bus forgets; the home does not, and no number stands for two cycles."""
    await make_home([REST, REST])
    home = await make_home([REST])

    with conch.open(home) as opened:
        assert [row["cycle"] for row in opened.cycles.last()] == [0, 1, 2]


async def test_a_home_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """One run of a home at a time, in this process as in another."""
    async with conch.MemoryBus() as bus, conch.running(bus, mind=ENDLESS, home=tmp_path / "home"):
        with pytest.raises(HomeBusyError, match="in use"):
            async with conch.MemoryBus() as other, conch.running(other, home=tmp_path / "home"):
                pass


async def test_a_stream_of_another_home_is_refused() -> None:
    """Two agents of one name would be one on the stream."""
    async with asyncio.timeout(60), conch.MemoryBus() as bus:
        async with conch.running(bus, mind=[REST]) as run:
            await run.finished()

        with pytest.raises(BusError, match="another agent named echo"):
            async with conch.running(bus, mind=[REST]):
                pass


async def test_a_function_that_is_no_consumer_is_refused() -> None:
    """With what it lacks."""
    async with conch.MemoryBus() as bus:
        for start in (conch.consuming(bus, print), conch.running(bus, consumers=[print])):
            with pytest.raises(ContractError, match="print is no consumer: declare it with @consumer"):
                await start.__aenter__()


async def test_a_text_as_a_script_is_refused() -> None:
    """Its letters would be the replies."""
    async with conch.MemoryBus() as bus:
        with pytest.raises(ContractError, match="replies of a script as a list"):
            async with conch.running(bus, mind=REST):
                pass

"""What a type checker says of a program that uses the library: checked by `test_typing`, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import conch
from conch.bus import Bus
from conch.testing import Consumed, consume, make_action_taken, score
from conch_schemas import ActionTaken, Event, ExperienceRecorded, RewardAssigned, Score


@conch.rule(weight=0.1)
def brevity(action: ActionTaken) -> float | None:
    """A rule keeps its own type."""
    return float(action.raw_length)


@conch.consumer(ActionTaken)
def nothing(action: ActionTaken) -> None:
    """A consumer too."""


class Mine:
    """A mind."""

    kind, model, learns = "mine", "mine-1", False

    async def complete(self, prompt: conch.Prompt) -> conch.Completion:
        """Nothing."""
        raise NotImplementedError

    def learn(self, experience: ExperienceRecorded) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""


async def program(bus: Bus) -> None:
    """Each public name as it is used."""
    assert_type(brevity(make_action_taken()), float | None)
    assert_type(conch.subscribe(bus), conch.Subscription[Event])
    async for reward in conch.subscribe(bus, RewardAssigned, agent="echo"):
        assert_type(reward, RewardAssigned)
    async with conch.subscribe(bus, ActionTaken, after=0) as acts:
        async for act in acts:
            assert_type(act, ActionTaken)
    async with conch.consuming(bus, nothing) as consumers:
        assert_type(consumers, conch.Run)
    async with conch.running(bus, mind=Mine(), consumers=[nothing]) as run:
        assert_type(run, conch.AgentRun)
        async for experience in run.events(ExperienceRecorded):
            assert_type(experience, ExperienceRecorded)
    async with conch.agent("mine", bus=bus, tools={"search": "read"}) as agent:
        assert_type(agent, conch.ProgramAgent)
        async with agent.cycle() as cycle:
            assert_type(cycle, conch.ProgramCycle)
            await cycle.decided(tool="search", args={"query": "sea"}, usage={"prompt_tokens": 3})
            await cycle.taken("success", output="found")
            assert_type(await cycle.reward(timeout=5), float | None)
        async for recorded in agent.rewards():
            assert_type(recorded, ExperienceRecorded)
    with conch.agent("mine", home="demo") as blocking:
        assert_type(blocking, conch.BlockingAgent)
        with blocking.cycle() as step:
            assert_type(step, conch.BlockingCycle)
            assert_type(step.reward(timeout=5), float | None)
    async with conch.connect(home="demo") as found:
        assert_type(found, Bus)
    with conch.open("demo") as home:
        assert_type(home, conch.HomeReader)
        rows: Iterator[dict[str, object]] = home.cycles()
        assert_type(next(rows), dict[str, object])
    assert_type(score(brevity, make_action_taken()), Score)
    done = await consume(nothing, [])
    assert_type(done, Consumed)
    assert_type(done.of(RewardAssigned), list[RewardAssigned])

"""Task episodes: a goal with a test suite, told step by step, paid to no one who did not move it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from conch.bus import MemoryBus, MemoryJournal
from conch.bus.protocol import Stored
from conch.minds import Situation
from conch.rewards.progress import ProgressState, fold, rewarded_advances
from conch.tools import ToolContext, tool
from conch_schemas import (
    ActionTaken,
    CycleReflected,
    Goal,
    GoalDropped,
    GoalReached,
    TaskProgressed,
    TestsCheck,
    ThoughtFormed,
    Usage,
    decode,
    encode,
    source_of,
    subject_of,
)
from tests.cycle.conftest import Life

TASK = Goal(id="task", statement="The tests pass.", check=TestsCheck(command="cat result"))
OTHER = Goal(id="other", statement="Others pass.", check=TestsCheck(command="cat other"), priority=0.9)


@tool
async def write(context: ToolContext, passed: int, file: str = "result") -> str:
    """Writes the end of a test run of four."""
    (context.workspace / file).write_text(_ran(passed))
    return "written"


def _ran(passed: int) -> str:
    counts = [f"{passed} passed"] * (passed > 0) + [f"{4 - passed} failed"] * (passed < 4)
    return f"{', '.join(counts)} in 0.1s\n"


@pytest.fixture
def task(life: Life) -> Life:
    """A life with a task of which one test in four passes, and a mind that writes 10 tokens a reply; those it reads
    do not count."""
    life.add(write)
    (life.workspace / "result").write_text(_ran(1))
    life.configured(goals=(TASK,), cycle={"reflect_every": 1000})
    life.mind.usage = Usage(input_tokens=7, output_tokens=10)
    return life


def _passing(*passed: int | None) -> Callable[[Situation], str]:
    """A mind that brings so many tests to pass, one figure a cycle (None: it rests), and then rests."""

    def decides(situation: Situation) -> str:
        wanted = passed[situation.cycle] if situation.cycle < len(passed) else None
        return "DO_NOTHING: resting" if wanted is None else f"TOOL: write(passed={wanted})"

    return decides


def _told(life: Any) -> list[tuple[int | None, float | None, int | None, bool]]:
    steps = life.facts(TaskProgressed)
    return [(step.cycle, step.test_pass_rate, step.tokens_used, step.terminal) for step in steps]


def _borne(life: Any) -> list[tuple[str | None, bool]]:
    return [(act.episode, act.terminal) for act in life.facts(ActionTaken)]


async def test_each_act_on_the_way_is_a_step_and_the_last_one_ends_the_task(task: Life) -> None:
    """First how it stands; then after each act the share of tests that pass and the tokens used; then nothing more."""
    task.mind.decides = _passing(2, 1, None, 4)
    await task.run(6)

    assert _told(task) == [
        (None, 0.25, 0, False),
        (0, 0.5, 20, False),
        (1, 0.25, 40, False),
        (2, 0.25, 60, False),
        (3, 1.0, 80, True),
    ]
    assert _borne(task) == [*[("task", False)] * 3, ("task", True), (None, False), (None, False)]
    acts = {act.action_id: act for act in task.facts(ActionTaken)}
    for step in task.facts(TaskProgressed)[1:]:
        assert (step.episode, step.causation_id) == ("task", acts[step.action_id].id)


class _HeldBus(MemoryBus):
    """Stores the step of an act when the end of its cycle has been sent behind it."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__(journal)
        self.ended = asyncio.Event()

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        event = decode(data)
        if isinstance(event, CycleReflected):
            self.ended.set()
        elif isinstance(event, TaskProgressed) and event.action_id is not None:
            await self.ended.wait()
        return await super().publish(subject, data, id=id)


async def test_a_cycle_ends_while_the_step_of_its_act_is_stored(task: Life) -> None:
    """The step stands in the act: nothing waits for its event but the next cycle."""
    task.mind.decides = _passing(2)
    await task.run(2, _HeldBus(task.journal))

    told = [(type(fact), fact.cycle) for fact in task.facts(TaskProgressed, CycleReflected, ThoughtFormed)]
    assert told.index((TaskProgressed, 0)) < told.index((ThoughtFormed, 1))


async def test_each_step_says_its_phase_and_the_shares_of_the_roles(task: Life) -> None:
    """From what the acts do. A rest leaves the task in its phase, as does a measure of the next run."""
    replies = [
        'TOOL: filesystem(operation="read", path="result")',
        _written(2),
        "DO_NOTHING: resting",
        "REFLECT: the tests",
        _written(4),
    ]
    task.mind.decides = lambda situation: replies[situation.cycle]
    await task.run(3)
    (task.workspace / "result").write_text(_ran(3))
    await task.run(5)

    said = [(step.cycle, step.phase, step.roles) for step in task.facts(TaskProgressed)]
    half = {"planner": 0.5, "coder_runner": 0.5, "critic": 0.0}
    assert said[:5] == [
        (None, None, None),
        (0, "planning", {"planner": 1.0, "coder_runner": 0.0, "critic": 0.0}),
        (1, "coding", half),
        (2, "coding", half),
        (None, "coding", half),
    ]
    assert [phase for _, phase, _ in said[5:]] == ["critique", "done"]
    assert said[-1][2] == {"planner": 0.25, "coder_runner": 0.5, "critic": 0.25}


def _written(passed: int) -> str:
    return f'TOOL: filesystem(operation="write", path="result", content={json.dumps(_ran(passed))})'


async def test_each_act_says_the_step_that_follows_it(task: Life) -> None:
    """What `task.progressed` says stands in the act before it, word for word; an act of no task says none."""
    task.mind.decides = _passing(2, None, 4)
    await task.run(4)

    *of_task, last = task.facts(ActionTaken)
    steps = [step for step in task.facts(TaskProgressed) if step.action_id]
    said = [act.task_step() for act in of_task]
    assert [one and one.model_copy(update={"time": step.time}) for one, step in zip(said, steps, strict=True)] == steps
    assert (last.progress, last.task_step()) == (None, None)


async def test_an_act_of_an_older_version_that_was_cut_short_before_its_step_gets_it(task: Life) -> None:
    """The act does not say the step: what the memory has does."""
    task.mind.decides = _passing(2, 3)
    for at in itertools.count():
        await task.crash(1, at, stored=True)
        if task.facts()[-1].TYPE == ActionTaken.TYPE:
            break
        task.journal = MemoryJournal()
    seq, delivery = list(task.journal.events.items())[-1]
    told = json.loads(delivery.data)
    del told["data"]["progress"]
    task.journal.events[seq] = delivery._replace(data=json.dumps(told).encode())
    await task.run(2)

    assert _told(task) == [(None, 0.25, 0, False), (0, 0.5, 20, False), (1, 0.75, 40, False)]


async def test_reflecting_on_a_task_costs_it_tokens(task: Life) -> None:
    """What a reflection used is in the next step's count."""
    task.configured(cycle={"reflect_every": 1})
    await task.run(3)

    assert [step.tokens_used for step in task.facts(TaskProgressed)] == [0, 20, 50, 80]


async def test_a_dropped_task_is_ended_by_the_next_act(task: Life) -> None:
    """Also where it was dropped while no agent ran; the acts after that belong to none."""
    await task.run(2)
    bus_said = {"source": source_of("echo", task.agentuid), "agent": "echo"}
    dropped = GoalDropped(id="d", goal="task", **bus_said)
    async with MemoryBus(task.journal) as bus:
        await bus.publish(subject_of(dropped), encode(dropped), id=dropped.id)
    await task.run(4)

    assert _borne(task) == [("task", False), ("task", False), ("task", True), (None, False)]
    assert _told(task)[-1] == (2, None, 60, True)


async def test_an_act_belongs_to_one_task(task: Life) -> None:
    """To the one of the highest priority, unless it achieves another; that one's end does not end the first."""
    (task.workspace / "other").write_text(_ran(0))
    task.configured(goals=(TASK, OTHER))
    task.mind.decides = _passing(2, 4)
    await task.run(3)

    assert _borne(task) == [("other", False), ("task", True), ("other", False)]
    assert [(s.episode, s.test_pass_rate) for s in task.facts(TaskProgressed) if s.cycle is not None] == [
        ("other", 0.0),
        ("task", 1.0),
        ("other", 0.0),
    ]


async def test_what_happened_between_two_runs_is_told_as_nobodys_step(task: Life) -> None:
    """Where the task stands at the start of a run is said where it is news, and belongs to no act."""
    task.mind.decides = _passing(2)
    await task.run(1)
    await task.run(2)
    (task.workspace / "result").write_text(_ran(3))
    await task.run(3)

    assert _told(task) == [
        (None, 0.25, 0, False),
        (0, 0.5, 20, False),
        (1, 0.5, 40, False),
        (None, 0.75, 40, False),
        (2, 0.75, 60, False),
    ]


async def test_a_check_that_cannot_be_run_says_no_rate(task: Life) -> None:
    """The step is told without one, so that nothing seems to have fallen."""
    slow = TestsCheck(command="test ! -e slow || sleep 60; cat result")
    task.configured(goals=(TASK.model_copy(update={"check": slow}),), tools={"timeout": 0.3})
    task.mind.decides = lambda s: f'TOOL: write(passed=2, file="{"result" if s.cycle == 0 else "slow"}")'
    await task.run(2)

    assert _told(task) == [(None, 0.25, 0, False), (0, 0.5, 20, False), (1, None, 40, False)]


async def test_other_goals_are_no_tasks(life: Life) -> None:
    """Without a goal that a test suite decides nothing is told."""
    await life.run(2)

    assert life.facts(TaskProgressed) == []
    assert _borne(life) == [(None, False)] * 2


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored, not acknowledged"])
@pytest.mark.parametrize("at", range(26))
async def test_a_crash_at_any_publish_loses_and_doubles_no_step(task: Life, at: int, stored: bool) -> None:
    """Every act of the task has its one step, tokens are counted once, and the rewards add up to where it stands."""
    task.mind.decides = _passing(2, None, 3, 4)
    await task.crash(4, at, stored=stored)
    await task.run(6)

    acts, steps = task.facts(ActionTaken), task.facts(TaskProgressed)
    of_task = [act for act in acts if act.episode == "task"]
    assert [step.action_id for step in steps if step.action_id] == [act.action_id for act in of_task]
    used = [step.tokens_used for step in steps if step.action_id]
    assert used == [20 * number for number in range(1, len(used) + 1)]
    assert [step.terminal for step in steps if step.action_id] == [False] * (len(of_task) - 1) + [
        bool(task.facts(GoalReached))  # not where the crash kept the last act from being done
    ]
    state, scored = ProgressState(), 0.0
    for said in task.facts(ActionTaken, TaskProgressed):
        state, told = fold(state, said)
        scored += told.row.r_step if told.row is not None else 0.0
    final = 1.0 if steps[-1].test_pass_rate == 1.0 else 0.0
    rates = [step.test_pass_rate for step in steps if step.test_pass_rate is not None]
    advances = 0.3 * rewarded_advances([step.phase for step in steps])
    assert scored == pytest.approx(advances + 0.7 * (rates[-1] - rates[0]) - 0.0001 * used[-1] + final)

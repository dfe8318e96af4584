"""Goals: decided by their checks alone, and paid to no one who did not reach them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from conch.cycle.goals import GoalBaseline, reached_by_parts
from conch.cycle.state.memory import ActiveGoal, AgentMemory, remember
from conch.minds import Situation
from conch.tools import Sandbox, ToolContext, tool
from conch_schemas import (
    ActionTaken,
    CommandCheck,
    Event,
    FileCheck,
    Goal,
    GoalCheck,
    GoalDropped,
    GoalReached,
    GoalSet,
    source_of,
)

if TYPE_CHECKING:
    from tests.cycle.conftest import Life


@tool
async def write(context: ToolContext, text: str) -> str:
    """Writes x."""
    (context.workspace / "x").write_text(text)
    return "written"


def goal(id: str = "x", **check: Any) -> Goal:
    return Goal(id=id, statement=f"Goal {id}.", check=FileCheck(**({"path": "x"} | check)))


def an_event(kind: type[Event], **data: Any) -> Event:
    """An event of no cycle."""
    return kind(id=f"{kind.TYPE}/{data['goal']}"[:60], source=source_of("echo", AGENTUID), agent="echo", **data)


AGENTUID = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"


def writes(*texts: str) -> Callable[[Situation], str]:
    """A mind that writes one text a cycle, and then does nothing."""
    return lambda s: f'TOOL: write(text="{texts[s.cycle]}")' if s.cycle < len(texts) else "DO_NOTHING: done"


def checks(life: Any) -> list[GoalCheck]:
    """The checks of all acts, flat."""
    return [check for fact in life.facts(ActionTaken) for check in fact.goals]


async def test_the_outcome_is_what_the_check_says(life: Life) -> None:
    """Nothing of it, a part, less than the best part, all of it: neutral, partial, neutral, achieved."""
    life.add(write)
    life.configured(goals=(goal(contains=("tide", "moon", "star")),))
    life.mind.decides = writes("sand", "tide moon", "tide", "moon star tide")
    await life.run(5)

    found = [(check.outcome, round(check.measure, 2), round(check.best, 2)) for check in checks(life)]
    assert found == [("neutral", 0, 0), ("partial", 0.67, 0), ("neutral", 0.33, 0.67), ("achieved", 1, 0.67)]
    assert [fact.goal for fact in life.facts(GoalReached)] == ["x"]


async def test_a_rise_too_small_for_progress_is_held_against_its_threshold(life: Life) -> None:
    """One of 25 words is 0.04 of the goal: neutral, and the check names the least rise that is progress. Of two words,
    which are progress, and of a fall, it names none."""
    words = tuple(f"word{number:02}" for number in range(25))
    life.add(write)
    life.configured(goals=(goal(contains=words),))
    life.mind.decides = writes("word00", "word00 word01", "word00")
    await life.run(4)

    found = [(check.outcome, check.detail.partition(";")[0]) for check in checks(life)]
    small = "rose by 0.04, and progress is a rise of 0.05 or more"
    assert found[0] == ("neutral", small)
    assert [outcome for outcome, _ in found] == ["neutral", "partial", "neutral", "neutral"]
    assert not any("progress" in detail for _, detail in found[1:])


async def test_a_goal_that_is_reached_already_pays_nobody(life: Life) -> None:
    """What was so before the first act is said reached at once, and no act carries it."""
    (life.workspace / "x").write_text("there")
    life.configured(goals=(goal(),))
    await life.run(2)

    assert checks(life) == []
    [reached] = life.facts(GoalReached)
    assert (reached.goal, reached.cycle) == ("x", None)


async def test_what_a_person_did_between_two_runs_pays_nobody(life: Life) -> None:
    """Progress that came while the agent was away is the new baseline, not the merit of its next act."""
    life.add(write)
    life.configured(goals=(goal(contains=("tide", "moon")),))
    life.mind.decides = lambda _: 'TOOL: write(text="tide")'
    await life.run(0)
    (life.workspace / "x").write_text("tide")
    await life.run(1)

    assert [(check.outcome, check.best) for check in checks(life)] == [("neutral", 0.5)]


async def test_what_an_unknown_act_achieved_pays_nobody(life: Life) -> None:
    """A crash hid the outcome: the goal is found reached before the next act, and no act carries it."""
    life.add(write)
    life.configured(goals=(goal(),))
    life.mind.decides = writes("tide")
    await life.crash(1, 5, stored=False)
    assert (life.workspace / "x").exists()
    await life.run(2)

    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["unknown", "none"]
    assert checks(life) == []
    assert len(life.facts(GoalReached)) == 1


async def test_an_act_that_touches_nothing_is_not_checked(life: Life) -> None:
    """Doing nothing leaves the last measure standing, whatever happened beside it."""
    life.configured(goals=(goal(),))
    life.mind.decides = lambda _: (life.workspace / "x").write_text("beside") and "DO_NOTHING: waiting"
    await life.run(1)

    assert [(check.outcome, check.measure) for check in checks(life)] == [("neutral", 0.0)]


@pytest.mark.parametrize("path", ["../x", "\x00", "a" * 300])
async def test_a_check_that_cannot_be_run_says_nothing(life: Life, path: str) -> None:
    """Its outcome is `error`, it neither pays nor reaches, and the agent goes on."""
    life.add(write)
    life.configured(goals=(goal(path=path),))
    life.mind.decides = writes("tide", "moon")
    await life.run(2)

    assert {check.outcome for check in checks(life)} <= {"error", "neutral"}
    assert life.facts(GoalReached) == []


async def test_no_act_is_paid_for_a_goal_without_a_baseline(life: Life) -> None:
    """A check that could not be run before the act is not believed after it."""
    life.add(write)
    life.configured(goals=(Goal(id="c", statement="c", check=CommandCheck(command="test -e x")),))
    usual = life.workspace
    life.workspace = usual / "gone"
    life.mind.decides = lambda s: (s.cycle == 0 and usual.joinpath("gone").mkdir()) or 'TOOL: write(text="t")'
    await life.run(1)

    [check] = checks(life)
    assert check.outcome == "error"
    assert "could not be checked before the act" in check.detail
    assert life.facts(GoalReached) == []


async def test_a_try_that_failed_makes_the_next_success_a_problem_solved(life: Life) -> None:
    """`failed_before` is said of a goal that an earlier act tried in vain; resting is no try. Of acts that are not
    measured, one that may have changed the workspace is a try."""
    life.add(write)
    life.configured(goals=(goal(equals="tide"),))
    life.mind.decides = lambda s: ["DO_NOTHING: first", *['TOOL: write(text="sand")', 'TOOL: write(text="tide")']][
        s.cycle
    ]
    await life.run(3)

    assert [(check.outcome, check.failed_before) for check in checks(life)] == [
        ("neutral", False), ("neutral", False), ("achieved", True)
    ]  # fmt: skip


async def test_goals_of_the_home_are_set_once(life: Life) -> None:
    """Starting again does not set a goal again, not even one that was reached or dropped."""
    life.add(write)
    life.configured(goals=(goal(),))
    life.mind.decides = writes("tide")
    for until in (1, 2, 3):
        await life.run(until)
        (life.workspace / "x").unlink(missing_ok=True)

    assert [fact.TYPE for fact in life.facts() if fact.TYPE.startswith("goal")] == ["goal.set", "goal.reached"]


async def test_a_goal_whose_deadline_has_passed_is_dropped_with_a_word(life: Life) -> None:
    """Before the next cycle, and its check pays nothing from then on; one that is due later stays."""
    now = datetime.now(UTC)
    past = goal("past").model_copy(update={"deadline": now - timedelta(minutes=1)})
    naive = goal("naive").model_copy(update={"deadline": datetime(2020, 1, 1)})  # noqa: DTZ001 - as a file may name it
    later = goal("later", path="y").model_copy(update={"deadline": now + timedelta(days=1)})
    life.add(write)
    life.configured(goals=(past, naive, later))
    life.mind.decides = writes("tide")
    agent = await life.run(2)

    dropped = {fact.goal: fact.why for fact in life.facts(GoalDropped)}
    assert set(dropped) == {"past", "naive"}
    assert all(why.startswith("its deadline ") for why in dropped.values())
    assert list(agent.memory.goals) == ["later"]
    assert life.facts(GoalReached) == []


async def test_a_deadline_that_passes_in_a_cycle_pays_nothing(life: Life) -> None:
    """The act that would have reached the goal came too late: its check is neutral and says why."""
    context = ToolContext(life.workspace, Sandbox(life.settings.tools), life.notes, life.settings.tools)
    due = datetime.now(UTC) - timedelta(seconds=1)
    late = ActiveGoal(goal=goal("late").model_copy(update={"deadline": due}))
    baseline = GoalBaseline(0.05)
    await baseline.measure([late, ActiveGoal(goal=goal())], context)
    (life.workspace / "x").write_text("tide")

    found = await baseline.after([late, ActiveGoal(goal=goal())], context, touched=True)

    assert [(check.goal, check.outcome) for check in found] == [("late", "neutral"), ("x", "achieved")]
    assert found[0].detail == "its deadline has passed"


async def test_a_goal_is_reached_when_its_parts_are(life: Life) -> None:
    """Part by part, and the whole of the whole too; a part that was dropped reaches nothing."""
    whole, top = goal("whole", path="never"), goal("top", path="never")
    parts = [goal("a"), goal("b", contains=("moon",))]
    life.add(write)
    life.configured(
        goals=(
            top,
            whole.model_copy(update={"parent": "top"}),
            *(part.model_copy(update={"parent": "whole"}) for part in parts),
        )
    )
    life.mind.decides = writes("tide", "moon")
    await life.run(4)

    assert [fact.goal for fact in life.facts(GoalReached)] == ["a", "b", "whole", "top"]
    memory = remember(AgentMemory(), an_event(GoalSet, goal=whole))
    memory = remember(memory, an_event(GoalSet, goal=parts[0].model_copy(update={"parent": "whole"})))
    memory = remember(memory, an_event(GoalDropped, goal="a"))
    assert reached_by_parts(memory.goals.values()) == []


async def test_goals_of_a_higher_priority_come_first(life: Life) -> None:
    """In what the mind is told; those of one priority in the order in which they were set."""
    life.configured(
        goals=tuple(
            goal(name, path=name).model_copy(update={"priority": priority})
            for name, priority in (("low", 0.1), ("first", 0.5), ("second", 0.5), ("high", 0.9))
        )
    )
    await life.run(1)

    assert [one.id for one in life.mind.asked[0].situation.goals] == ["high", "first", "second", "low"]

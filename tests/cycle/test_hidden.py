"""A goal with a hidden check: the mind is told the statement and the measure, and by no way the check."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.config import OwnGoalSettings
from conch.cycle.own_goals.bounds import goal_objection
from conch.cycle.prompts.brief import task_of
from conch.cycle.state.memory import ActiveGoal, AgentMemory
from conch.minds import Situation
from conch.minds.embedded.features import GROUPS
from conch.minds.embedded.templates import fill_slots, fill_templates
from conch.snapshots import GoalThen, RecordedDecision
from conch.tools import ToolContext, tool
from conch_schemas import (
    ActionTaken,
    Check,
    CommandCheck,
    FileCheck,
    Goal,
    GoalReached,
    GoalSet,
    TestsCheck,
    encode,
)

if TYPE_CHECKING:
    from tests.cycle.conftest import Life

SECRET = "halley"
"""What each check looks for; no statement says it."""
CHECKS: dict[str, Check] = {
    "file": FileCheck(path=f"{SECRET}.md", contains=(SECRET, f"{SECRET} again")),
    "whole": FileCheck(path="answer.md", equals=SECRET),
    "outside": FileCheck(path=f"../{SECRET}", contains=(SECRET,)),
    "command": CommandCheck(command=f"grep {SECRET} answer.md || echo no {SECRET}; false"),
    "tests": TestsCheck(command=f"echo {SECRET}; python3 -m unittest {SECRET}"),
}


def hidden(id: str, check: Check) -> Goal:
    return Goal(id=id, statement=f"Name the comet, {id}.", check=check, hidden=True)


@tool(effects="workspace")
async def write(context: ToolContext, text: str) -> str:
    """Writes answer.md."""
    (context.workspace / "answer.md").write_text(text)
    return "written"


async def test_nothing_that_the_mind_reads_has_the_text_of_the_check(life: Life, tmp_path: Path) -> None:
    """No prompt, no state that a mind gets beside it, and no event but the goal's own: not what the checks print, nor
    why one could not be run. The person's statement and the measure are told."""
    life.memories = tmp_path / "memory.db"
    life.measures(tmp_path / "known.db")
    life.add(write)
    life.configured(goals=tuple(hidden(id, check) for id, check in CHECKS.items()), mind={"prompt_tokens": 8192})
    texts = ('TOOL: write(text="comet")', 'TOOL: shell(command="true")', 'TOOL: write(text="again")')
    life.mind.decides = lambda situation: texts[situation.cycle % 3]

    agent = await life.run(6)

    assert SECRET not in repr(life.mind.asked)
    told = [fact for fact in life.facts() if SECRET.encode() in encode(fact)]
    assert {type(fact) for fact in told} == {GoalSet}
    decision = [prompt for prompt in life.mind.asked if prompt.purpose == "decide"][-1]
    prompt = decision.messages[-1].content
    assert "Name the comet, tests." in prompt
    assert "its check is hidden; its measure is the share of its tests that pass" in prompt
    assert "best so far 0.00 of 1, now 0.00" in prompt
    checks = {check.goal: check for fact in life.facts(ActionTaken) for check in fact.goals}
    assert {check.detail for check in checks.values()} >= {"the check is hidden"}
    assert "could not be run" in checks["outside"].detail
    goals = tuple(GoalThen(goal=one.goal) for one in agent.memory.goals.values())
    recorded = RecordedDecision.of(decision, goals, None)
    assert SECRET not in repr(recorded.prompt())
    assert {then.goal.check for then in recorded.goals} == set(CHECKS.values())


async def test_a_hidden_check_decides_the_goal_all_the_same(life: Life) -> None:
    """Partial progress and the end are paid by the whole check."""
    life.add(write)
    life.configured(goals=(hidden("comet", FileCheck(path="answer.md", contains=("ice", SECRET))),))
    life.mind.decides = lambda s: ('TOOL: write(text="ice")', f'TOOL: write(text="ice {SECRET}")')[s.cycle]
    await life.run(2)

    found = [(check.outcome, check.measure, check.detail) for fact in life.facts(ActionTaken) for check in fact.goals]
    assert found == [("partial", 0.5, "the check is hidden"), ("achieved", 1.0, "the check is hidden")]
    assert [fact.goal for fact in life.facts(GoalReached)] == ["comet"]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("blank", [True, False], ids=["as told", "whole"])
def test_no_template_and_no_task_uses_a_hidden_check(check: Check, blank: bool) -> None:
    """Neither the embedded mind's calls nor the task of a small model's prompt, also where a program made the state
    from the whole goal."""
    goal = hidden("comet", check)
    situation = Situation(
        "echo", 2, {"curiosity": 0.5}, {}, "curiosity", goals=(goal.as_told() if blank else goal,), files=("answer.md",)
    )  # fmt: skip
    drawn = random.Random(1)

    for _ in range(30):
        slots = fill_slots(situation, drawn)
        calls = fill_templates(slots, frozenset(GROUPS), writes=True, commits=True)
        assert SECRET not in repr((slots, calls))
    assert SECRET not in task_of(situation).text
    assert "Name the comet" in task_of(situation).text


def test_what_the_mind_is_told_of_a_goal_keeps_the_kind_of_a_hidden_check_alone() -> None:
    """The kind says what the measure is; a goal whose check is told is told whole."""
    for check in CHECKS.values():
        goal = hidden("comet", check)
        shown, open_goal = goal.as_told(), goal.model_copy(update={"hidden": False})

        assert (shown.check.kind, shown.statement, shown.told_check) == (check.kind, goal.statement, None)
        assert SECRET not in shown.model_dump_json()
        assert open_goal.as_told() is open_goal
        assert open_goal.told_check == check


def test_a_proposal_does_not_tell_whether_a_hidden_check_was_guessed() -> None:
    """A goal of the agent's own with the same check is no repetition that could be refused as such."""
    check = CHECKS["file"]
    own = Goal(id="own", statement="A guess.", check=check)
    objections = [
        goal_objection(
            AgentMemory(goals={"g": ActiveGoal(goal=Goal(id="g", statement="g", check=check, hidden=is_hidden))}),
            OwnGoalSettings(),
            own,
            datetime.now(UTC),
        )
        for is_hidden in (True, False)
    ]

    assert objections == [None, "the goal g has this check"]

"""What acts earn where the agent counted its goals: what moves a goal, a rest, and looking that moves none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import ExecutionValues, NeedsSettings, Settings
from conch.folds import tool_result
from conch.rewards.rules import worked_execution
from conch_schemas import (
    ActionTaken,
    ChangedLines,
    CheckRun,
    GoalCheck,
    GoalWork,
    Information,
    MeasuredEffect,
)
from tests.rules.conftest import MakeAct, MakeCheck
from tests.rules.test_effect import Life

LEVELS = st.fixed_dictionaries(
    dict.fromkeys(("sustainability", "reliability", "curiosity", "excellence"), st.floats(0.0, 1.0))
)
PRESETS = st.sampled_from(["balanced", "learning", "production", "creative"])
INFORMATION = Information(lines=9, new=9)
LOOKS = st.builds(
    MeasuredEffect,
    kind=st.sampled_from(["none", "information"]),
    information=st.sampled_from([Information(), INFORMATION]),
    target=st.sampled_from([None, "a.py"]),
    skills_on_offer=st.just(24),
    noise=st.booleans(),
)
LOOKED = MeasuredEffect(kind="information", information=INFORMATION, target="a.py", skills_on_offer=24)
CHANGED = MeasuredEffect(
    kind="change", paths=("a.py",), lines=ChangedLines(added=1, new=1), lines_changed=1, target="a.py"
)
READ = {"operation": "read", "path": "a.py"}
WRITE = {"operation": "write", "path": "a.py", "content": "x = 1"}


def stands(effect: MeasuredEffect, open: int = 1, allowance: int = 20, appends: int = 0) -> MeasuredEffect:
    """The effect of an act that was counted."""
    return effect.model_copy(update={"work": GoalWork(open=open, allowance=allowance, appends=appends)})


def looks(make: MakeAct, effect: MeasuredEffect, cycle: int = 0, **more: Any) -> ActionTaken:
    """A reading with this effect."""
    return make(cycle, tool="filesystem", args=READ, effect=effect, **more)


def rests(make: MakeAct, open: int, cycle: int = 0) -> ActionTaken:
    """A rest while so many goals are open."""
    return make(cycle, "DO_NOTHING", effect=stands(MeasuredEffect(), open))


def moves(make: MakeAct, check: GoalCheck, cycle: int = 0, **more: Any) -> ActionTaken:
    """A write that moves a goal, with no paid change left."""
    effect = stands(CHANGED.model_copy(update={"kind": "progress"}), allowance=0, appends=9)
    return make(cycle, tool="filesystem", args=WRITE, effect=effect, goals=(check,), **more)


def lived(levels: dict[str, float], preset: str = "balanced", *before: ActionTaken) -> Life:
    """An agent with these needs, after these acts."""
    life = Life(levels, Settings(needs=NeedsSettings.model_validate({"preset": preset})))
    for act in before:
        life.does(act)
    return life


@given(levels=LEVELS, preset=PRESETS, effect=LOOKS, opened=st.integers(0, 3), tool=st.sampled_from(["git", "other"]))
def test_looking_that_moves_no_goal_pays_less_than_a_rest(
    act: MakeAct, levels: dict[str, float], preset: str, effect: MeasuredEffect, opened: int, tool: str
) -> None:
    """Whatever it shows, with whatever need starving, with a tool of its own or the first use of one, and with a goal
    open or not."""
    look = act(tool=tool, args={"operation": "log"}, effect=stands(effect, opened))

    assert lived(levels, preset).does(look).total < lived(levels, preset).does(rests(act, opened)).total


def test_a_look_that_raises_a_starving_need_pays_less_than_a_rest(act: MakeAct) -> None:
    """Curiosity starves and weighs most: the factor lowers the look as it lowers the rest."""
    levels = {"sustainability": 1.0, "reliability": 1.0, "curiosity": 0.0, "excellence": 1.0}
    look = lived(levels, "learning").does(looks(act, stands(LOOKED)))

    assert look.total < lived(levels, "learning").does(rests(act, 1)).total


@pytest.mark.parametrize("preset", ["balanced", "learning", "production", "creative"])
def test_the_doubled_pay_of_a_rare_look_stays_below_a_rest(act: MakeAct, preset: str) -> None:
    """After 60 acts of one kind exploration pays double for another one, and curiosity can rise."""
    levels = {"sustainability": 1.0, "reliability": 0.5, "curiosity": 0.5, "excellence": 0.5}
    logs = [act(n, tool="git", args={"operation": "log"}, effect=stands(LOOKED, 0)) for n in range(60)]
    verdict = lived(levels, preset, *logs).does(looks(act, stands(LOOKED), 60))

    assert "diversity" in [line.step for line in verdict.breakdown]
    assert verdict.total < lived(levels, preset).does(rests(act, 1)).total


@given(
    levels=LEVELS,
    preset=PRESETS,
    outcome=st.sampled_from(["partial", "achieved"]),
    status=st.sampled_from(["success", "error", "timeout"]),
    opened=st.integers(0, 3),
    times=st.integers(0, 19),
)
def test_a_rest_pays_less_than_what_moves_a_goal(
    act: MakeAct,
    check: MakeCheck,
    levels: dict[str, float],
    preset: str,
    outcome: str,
    status: str,
    opened: int,
    times: int,
) -> None:
    """However its command ended, with no paid change left, with needs that starve, and done many times before."""
    earlier = [moves(act, check(outcome), cycle) for cycle in range(times)]
    worked = lived(levels, preset, *earlier).does(moves(act, check(outcome), times, status=status))
    rested = lived(levels, preset).does(rests(act, opened))

    assert rested.total < worked.total


@given(levels=LEVELS, times=st.integers(1, 30))
def test_a_rest_is_neutral_only_with_no_goal_open(act: MakeAct, levels: dict[str, float], times: int) -> None:
    """Done again and again it earns the same, whatever starves, and *sustainability* recovers; with a goal open it
    earns less."""
    free, busy = lived(levels), lived(levels)
    right = [free.does(rests(act, 0, cycle)).total for cycle in range(times)]
    wrong = [busy.does(rests(act, 1, cycle)).total for cycle in range(times)]

    assert all(0.2 - 1e-9 <= total <= 0.225 + 1e-9 for total in right)
    assert all(theirs < ours for theirs, ours in zip(wrong, right, strict=True))
    assert free.needs.levels["sustainability"] == pytest.approx(min(1.0, levels["sustainability"] + 0.2 * times))


def test_what_an_act_earns(act: MakeAct, check: MakeCheck) -> None:
    """With satisfied needs and a goal open, as the table of the guide says."""
    life = dict.fromkeys(("sustainability", "reliability", "curiosity", "excellence"), 1.0)
    unseen = MeasuredEffect(kind="information", information=INFORMATION, skills_on_offer=24)
    tested = MeasuredEffect(checks=(CheckRun(goal="g1", ran=True, changed_since=True),), target="python3 tests.py")
    run = {"command": "python3 tests.py"}
    earned = {
        "reaches": lived(life).does(moves(act, check("achieved", measure=1.0))).total,
        "moves": lived(life).does(moves(act, check("partial"))).total,
        "paid change": lived(life).does(act(tool="filesystem", args=WRITE, effect=stands(CHANGED))).total,
        "paid test": lived(life).does(act(args=run, status="error", effect=stands(tested))).total,
        "rest, no goal": lived(life).does(rests(act, 0)).total,
        "rest": lived(life).does(rests(act, 1)).total,
        "unseen": lived(life).does(looks(act, stands(unseen))).total,
        "idle": lived(life).does(looks(act, stands(MeasuredEffect()))).total,
        "change": lived(life).does(act(tool="filesystem", args=WRITE, effect=stands(CHANGED, allowance=0))).total,
        "test": lived(life).does(act(args=run, status="error", effect=stands(tested, allowance=0))).total,
        "third": lived(life).does(act(tool="filesystem", args=WRITE, effect=stands(CHANGED, appends=3))).total,
        "fails": lived(life).does(looks(act, stands(MeasuredEffect()), status="error")).total,
    }

    assert {name: round(total, 3) for name, total in earned.items()} == {
        "reaches": 0.72,
        "moves": 0.57,
        "paid change": 0.42,
        "paid test": 0.42,
        "rest, no goal": 0.2,
        "rest": 0.1,
        "unseen": 0.025,
        "idle": -0.05,
        "change": -0.05,
        "test": -0.05,
        "third": -0.05,
        "fails": -0.083,
    }


def test_what_a_rest_and_a_fruitless_call_earn_are_settings(act: MakeAct) -> None:
    """A failed call earns the lesser of what a failure and a fruitless call earn; a blocked one what a failure does."""
    values = ExecutionValues(idle=0.3, resting=0.1, fruitless=-0.4, failed=-0.2)

    def earned(call: ActionTaken) -> float:
        assert call.effect is not None
        assert call.effect.work is not None
        return worked_execution(call, call.effect.work, values)

    assert (earned(rests(act, 0)), earned(rests(act, 1))) == (0.3, 0.1)
    idle = stands(MeasuredEffect())
    assert [earned(looks(act, idle, status=how)) for how in ("success", "error", "blocked")] == [-0.4, -0.4, -0.2]


def test_why_a_call_is_not_paid_is_said(act: MakeAct) -> None:
    """In the explanation of *execution*, each reason in its words."""
    unseen = MeasuredEffect(kind="information", information=INFORMATION, skills_on_offer=24)
    unloaded = MeasuredEffect(kind="change", checks=(CheckRun(changed_since=True, no_result=True),))
    effects = (stands(unseen), stands(CHANGED, appends=3), stands(CHANGED, allowance=0), stands(unloaded))
    said = [life_says(act(tool="filesystem", args=WRITE, effect=effect)) for effect in effects]

    assert [words.rpartition("; ")[2] for words in said] == [
        "it showed something new and moved no goal: less than a rest.",
        "it added to the same file 3 times while no goal moved: idle.",
        "it moved no goal, and no more changes are paid until one is reached: idle.",
        "it ran a test program that gave no result of a test: idle.",
    ]
    assert life_says(rests(act, 1)) == "The agent chose doing nothing while a goal was open or a message waited."
    assert life_says(rests(act, 0)) == "The agent chose doing nothing with no goal open."


def life_says(action: ActionTaken) -> str:
    """The explanation of *execution* of an act."""
    scores = lived({}).does(action).scores
    return next(str(score.explanation) for score in scores if score.component == "execution")


def test_an_answer_is_paid_like_work(act: MakeAct) -> None:
    """With no paid change left, and however often the same words were the answer."""
    effect = stands(MeasuredEffect(kind="answer"), allowance=0)
    life = lived({})
    totals = [
        life.does(act(cycle, tool="reply", args={"text": "Yes."}, effect=effect, answered=f"m{cycle}")).total
        for cycle in range(5)
    ]

    assert min(totals) >= 0.4


@given(effect=LOOKS, status=st.sampled_from(["success", "error", "timeout"]), opened=st.integers(0, 2))
def test_without_the_count_the_rules_of_before_hold(
    act: MakeAct, effect: MeasuredEffect, status: str, opened: int
) -> None:
    """An act that an earlier version recorded is worth what it was: looking is a success, an idle call a rest."""
    uncounted = looks(act, effect, status=status)

    verdict = Life().does(uncounted)

    execution = next(score for score in verdict.scores if score.component == "execution")
    worth = {"success": 1.0, "idle": 0.2, "failure": -0.3}
    assert execution.value == worth[str(tool_result(uncounted))]
    assert tool_result(looks(act, stands(effect, opened), status=status)) in ("look", "idle", "failure")

"""What an act with a measured effect earns: the real rules, folds and total of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.curiosity import CuriosityState
from conch.experience.assemble import ExperienceVerdict, judge
from conch.folds import brings_information, tool_result
from conch.needs import NeedsState
from conch.rewards import parts_of_act, weight_set
from conch_schemas import (
    ActionTaken,
    ChangedLines,
    CheckRun,
    ContextUse,
    GoalCheck,
    Information,
    MeasuredEffect,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    Score,
)
from conch_services.curiosity.consumer import curiosity
from conch_services.needs.consumer import needs
from conch_services.reward.consumer import reward
from tests.rules.conftest import MakeAct, MakeCheck

SATISFIED = {"sustainability": 1.0, "reliability": 1.0, "curiosity": 1.0, "excellence": 1.0}
READ = {"operation": "read", "path": "a.py"}
WRITE = {"operation": "write", "path": "a.py", "content": "x = 1"}

IDLE = MeasuredEffect(skills_on_offer=24)
UNSEEN = MeasuredEffect(kind="information", information=Information(lines=9, new=9), target="a.py", skills_on_offer=24)
CHANGED = MeasuredEffect(
    kind="change", paths=("a.py",), lines=ChangedLines(added=1, new=1), lines_changed=1, target="a.py"
)
PROGRESS = CHANGED.model_copy(update={"kind": "progress"})
TESTED = MeasuredEffect(checks=(CheckRun(goal="g1", ran=True, changed_since=True),), target="python3 tests.py")
NOTHING_TESTED = CheckRun(changed_since=True, no_result=True)
TESTED_AGAIN = MeasuredEffect(checks=(CheckRun(goal="g1", ran=True),), target="python3 tests.py")


class Life:
    """An agent whose acts are scored as a run scores them; it knows every tool already."""

    def __init__(self, levels: dict[str, float] = SATISFIED, settings: Settings = Settings()) -> None:  # noqa: B008
        context = ServiceContext(settings, Path())
        self.parts = parts_of_act(weight_set((), settings.rewards, settings.constitution), task=False)
        self._reward, self._needs, self._curiosity = (bind(one, context) for one in (reward, needs, curiosity))
        self.needs = NeedsState(levels=levels, place=(-1, 0), rested=False)
        uses = dict.fromkeys(("filesystem", "shell", "reply", "notes", "git", "device"), 9)
        self.history = CuriosityState(uses=uses)
        self.changed: NeedsChanged
        self.measured: NoveltyMeasured

    def does(self, act: ActionTaken) -> ExperienceVerdict:
        """The verdict of an act, of which every part has come."""
        said: RewardAssigned = self._reward.handle(act)
        self.needs, self.changed = self._needs.handle(self.needs, act)
        self.history, self.measured = self._curiosity.handle(self.history, act)
        changed, measured = self.changed, self.measured
        assert changed.score is not None
        verdict = judge(
            "test",
            self.parts,
            [*said.scores, changed.score, *changed.beside, measured.score, *measured.beside],
        )
        assert verdict.complete
        return verdict


def _earned(act: ActionTaken, levels: dict[str, float] = SATISFIED) -> float:
    return Life(levels).does(act).total


def _steps(verdict: ExperienceVerdict) -> list[str]:
    return [line.step for line in verdict.breakdown]


def _score(verdict: ExperienceVerdict, component: str) -> Any:
    return next(score for score in verdict.scores if score.component == component)


def _files(act: MakeAct, args: dict[str, Any], effect: MeasuredEffect, cycle: int = 0, **more: Any) -> ActionTaken:
    return act(cycle, tool="filesystem", args=args, effect=effect, **more)


def test_an_unseen_file_earns_a_half(act: MakeAct) -> None:
    """0.50 with satisfied needs, 0.53 where reliability can still rise."""
    read = _files(act, READ, UNSEEN, output="nine lines")

    assert _earned(read) == pytest.approx(0.50, abs=0.006)
    assert _earned(read, SATISFIED | {"reliability": 0.9}) == pytest.approx(0.53, abs=0.006)


def test_a_write_that_moves_its_goal_earns_more_than_reading(act: MakeAct, check: MakeCheck) -> None:
    """0.57 for partial progress, 0.72 for the goal itself."""
    moved = _files(act, WRITE, PROGRESS, goals=(check("partial", measure=0.5),))
    reached = _files(act, WRITE, PROGRESS, goals=(check("achieved", measure=1.0),))

    assert _earned(moved) == pytest.approx(0.57)
    assert _earned(reached) == pytest.approx(0.72)


def test_a_failing_test_run_after_an_edit_is_a_success(act: MakeAct, check: MakeCheck) -> None:
    """0.42: it ran to its end, so its verdict counts in *goal* alone and is no *error* of the needs."""
    life = Life()
    run = act(args={"command": "python3 tests.py"}, status="error", effect=TESTED, goals=(check("neutral"),))

    verdict = life.does(run)

    assert verdict.total == pytest.approx(0.42)
    assert [change.why for change in life.changed.changes] == ["tool_succeeded"] * 2
    assert _score(verdict, "execution").value == 1.0


def test_a_test_run_without_a_change_is_idle(act: MakeAct) -> None:
    """0.20, passed or failed: the workspace is as it was when the tests ran last."""
    for status in ("success", "error"):
        life = Life()
        run = act(args={"command": "python3 tests.py"}, status=status, effect=TESTED_AGAIN)

        verdict = life.does(run)

        assert verdict.total == pytest.approx(0.20)
        assert life.changed.changes == ()
        assert _score(verdict, "execution").explanation.endswith("of an unchanged workspace: idle.")


def test_an_idle_call_earns_a_rest_and_moves_no_need(act: MakeAct) -> None:
    """0.20, however well the tool ended and whatever its output says."""
    life = Life(dict.fromkeys(SATISFIED, 0.5))

    verdict = life.does(_files(act, READ, IDLE, output="words that were never seen before"))

    assert verdict.total == pytest.approx(0.20)
    assert (life.changed.changes, life.measured.new_information) == ((), False)
    assert "idle" in _score(verdict, "execution").explanation


@pytest.mark.parametrize("kind", ["none", "information", "change"])
@pytest.mark.parametrize("status", ["success", "error"])
def test_a_test_program_without_a_result_is_idle(act: MakeAct, kind: Any, status: str) -> None:
    """It earns a rest, by whichever exit status, and moves no need: what a failed load or build prints or leaves behind
    is no effect."""
    life = Life(dict.fromkeys(SATISFIED, 0.5))
    left = MeasuredEffect(kind=kind, information=Information(lines=9, new=9), checks=(NOTHING_TESTED,))

    verdict = life.does(act(args={"command": "python3 -m unittest notes/words.md"}, status=status, effect=left))

    assert verdict.total == pytest.approx(0.20)
    assert (life.changed.changes, life.measured.new_information) == ((), False)
    assert _score(verdict, "execution").explanation.endswith("a test program that gave no result of a test: idle.")


def test_a_test_program_without_a_result_that_moved_a_goal_is_a_success(act: MakeAct) -> None:
    """A command may do more than to run tests."""
    moved = MeasuredEffect(kind="progress", checks=(NOTHING_TESTED,))

    assert tool_result(act(status="error", effect=moved)) == "success"


def test_a_rest_earns_about_as_much(act: MakeAct) -> None:
    """0.20 with satisfied needs, 0.23 where sustainability can rise."""
    rest = act(kind="DO_NOTHING", effect=IDLE)

    assert _earned(rest) == pytest.approx(0.20)
    assert _earned(rest, SATISFIED | {"sustainability": 0.5}) == pytest.approx(0.225)


def test_fluent_filler_earns_what_a_change_does(act: MakeAct) -> None:
    """0.42 while it counts as a change, 0.20 once the agent says that it no longer does."""
    assert _earned(_files(act, WRITE, CHANGED)) == pytest.approx(0.42)
    assert _earned(_files(act, WRITE, CHANGED.model_copy(update={"kind": "none"}))) == pytest.approx(0.20)


@pytest.mark.parametrize("effect", [None, IDLE, CHANGED])
@pytest.mark.parametrize("args", [READ, WRITE])
def test_a_blocked_act_earns_nothing(act: MakeAct, args: dict[str, Any], effect: MeasuredEffect | None) -> None:
    """*ethical* is 0.5 and the gate takes what the form earned, measured or not, read or write."""
    verdict = Life().does(act(tool="filesystem", args=args, status="blocked", effect=effect))

    assert -1e-9 < verdict.total <= 0.0
    assert _score(verdict, "ethical").value == 0.5
    assert "gate:ethical" in _steps(verdict)


@pytest.mark.parametrize(
    ("tool", "effect", "status", "ethical"),
    [
        ("shell", MeasuredEffect(), "error", 1.0),
        ("shell", MeasuredEffect(paths=("a",)), "error", 0.5),
        ("shell", MeasuredEffect(paths=("a",), kind="change"), "success", 0.9),
        ("device", MeasuredEffect(), "success", 0.9),
        ("device", MeasuredEffect(), "error", 0.5),
        ("telescope", MeasuredEffect(), "error", 0.5),
        ("shell", TESTED.model_copy(update={"paths": ("cache",)}), "error", 0.9),
    ],
)
def test_a_mutation_is_measured(act: MakeAct, tool: str, effect: MeasuredEffect, status: str, ethical: float) -> None:
    """By the paths that differ; beyond the workspace, and where nothing is declared, by the declaration."""
    verdict = Life().does(act(tool=tool, status=status, effect=effect))

    assert _score(verdict, "ethical").value == ethical


STARVED = SATISFIED | {"sustainability": 0.1}


def test_a_rest_pays_more_than_information_while_sustainability_starves(act: MakeAct) -> None:
    """0.225 beside 0.17: a total that relieves no starving need counts three tenths, once, as a line of its own."""
    hurried = Life(STARVED | {"reliability": 0.05}).does(_files(act, READ, UNSEEN))
    read, rest = Life(STARVED).does(_files(act, READ, UNSEEN)), Life(STARVED).does(act(kind="DO_NOTHING", effect=IDLE))

    assert "starving" not in _steps(hurried)
    assert read.total == pytest.approx(0.3 * 0.495)
    assert rest.total == pytest.approx(0.225)
    assert [line.amount for line in read.breakdown if line.step == "starving"] == [pytest.approx(-0.7 * 0.495)]
    assert _score(read, "starving").explanation == "Starving: sustainability; the act raised none of these."


def test_starvation_multiplies_no_loss_and_comes_before_the_penalty(act: MakeAct) -> None:
    """A negative total stays as it is; what a repetition costs is not made less."""
    lost = Life(STARVED).does(act(kind="INVALID", effect=IDLE))
    life = Life(STARVED | {"sustainability": 0.0})
    reads = [life.does(_files(act, READ, UNSEEN, cycle)) for cycle in range(2)]

    assert "starving" not in _steps(lost)
    assert _steps(reads[1])[-2:] == ["starving", "repetition"]
    assert reads[1].total == pytest.approx(reads[0].total - 0.1)


def test_starvation_can_be_set(act: MakeAct) -> None:
    """`needs.starving` is the level and the factor."""
    read = _files(act, READ, UNSEEN)
    settings = {"needs": {"starving": {"level": 0.5, "factor": 0.5}}}

    half = Life(SATISFIED | {"sustainability": 0.5}, Settings.model_validate(settings)).does(read)

    assert half.total == pytest.approx(0.5 * 0.495)


def test_other_arguments_are_no_repetition_and_masked_results_are(act: MakeAct) -> None:
    """The call counts to the letter, a number in it too; the result with its numbers masked."""
    life, other = Life(), Life()
    for cycle in range(3):
        life.does(act(cycle, args={"command": f"make step{cycle}"}, output=f"{cycle} s", effect=CHANGED))
        other.does(act(cycle, args={"command": "make"}, output=f"{cycle} s", effect=CHANGED))

    assert (life.measured.repeats, other.measured.repeats) == (1, 3)


def test_the_same_target_without_an_effect_is_a_repetition(act: MakeAct) -> None:
    """In other words each time; an effect on the same target is none, and does not count."""
    life, effects = Life(), [IDLE, IDLE, CHANGED, IDLE]
    counts = []
    for cycle, effect in enumerate(effects):
        args = READ | {"operation": "grep", "pattern": "abcd"[cycle]}
        life.does(_files(act, args, effect.model_copy(update={"target": "a.py"}), cycle))
        counts.append(life.measured.repeats)

    assert counts == [1, 2, 1, 3]
    assert "without an effect" in life.measured.beside[2].explanation


def test_a_failed_act_on_the_same_target_is_a_repetition(act: MakeAct) -> None:
    """It brought no effect either; another tool × operation or another target begins anew."""
    life, target = Life(), IDLE.model_copy(update={"target": "a.py"})
    life.does(_files(act, READ, target, 0, status="error", output="one"))
    life.does(_files(act, READ | {"lines": 3}, target, 1, status="error", output="another"))
    twice = life.measured.repeats
    life.does(_files(act, {"operation": "list", "path": "a.py"}, target, 2))

    assert (twice, life.measured.repeats) == (2, 1)


def _fifty(act: MakeAct, skills: Sequence[str], on_offer: int) -> Life:
    life = Life()
    offer = UNSEEN.model_copy(update={"skills_on_offer": on_offer})
    for cycle in range(50):
        operation = skills[cycle % len(skills)]
        life.does(_files(act, {"operation": operation, "path": f"{cycle}"}, offer, cycle))
    return life


def test_three_of_twelve_skills_used_evenly_are_diverse_enough(act: MakeAct) -> None:
    """0.44 of what twelve skills could have, and the boost stays away."""
    life = _fifty(act, ["read", "list", "grep"], 12)

    assert life.measured.entropy == pytest.approx(0.44, abs=0.003)
    assert life.measured.beside[1].value == life.measured.entropy


def test_exploration_pays_double_for_a_rare_skill_alone(act: MakeAct) -> None:
    """With low diversity: a skill used 4 times among the last 50 acts is doubled, one used 5 times is not."""
    life = _fifty(act, ["read"], 12)
    doubled = []
    for cycle in range(50, 55):
        verdict = life.does(
            _files(
                act, {"operation": "info", "path": f"{cycle}"}, UNSEEN.model_copy(update={"skills_on_offer": 12}), cycle
            )
        )
        doubled.append("diversity" in _steps(verdict))

    assert doubled == [True] * 4 + [False]
    assert _score(verdict, "diversity").status == "not_applicable"
    assert _score(verdict, "diversity").explanation.endswith("this skill was used 5 times.")
    assert life.measured.entropy < 0.3


def test_noise_and_a_few_lines_are_no_information(act: MakeAct) -> None:
    """5 unseen lines are information, or the last ones of a file; noise is none, however many lines it has."""
    few = Information(lines=9, new=4)

    assert not brings_information(MeasuredEffect(kind="change", information=few))
    assert brings_information(MeasuredEffect(kind="change", information=few.model_copy(update={"new": 5})))
    assert brings_information(MeasuredEffect(kind="change", information=few.model_copy(update={"finished_file": True})))
    assert not brings_information(UNSEEN.model_copy(update={"noise": True}))
    life = Life()
    life.does(_files(act, READ, UNSEEN, status="error"))
    assert not life.measured.new_information


def test_a_goal_that_the_agent_set_pays_once_a_person_accepted_it(act: MakeAct, check: MakeCheck) -> None:
    """Before, neither *goal* nor *exploration* know it; beside one of a person's, that one counts."""
    own = check("achieved", measure=1.0, failed_before=True).model_copy(update={"accepted": False})
    life = Life()

    alone = life.does(_files(act, WRITE, PROGRESS, goals=(own,)))
    beside = Life().does(_files(act, WRITE, PROGRESS, goals=(own, check("partial"))))

    assert _score(alone, "goal").status == "not_applicable"
    assert "novel_problem_solved" not in life.measured.events
    assert _score(beside, "goal").value == 1.0


def test_social_abstains_until_a_person_has_spoken(act: MakeAct) -> None:
    """*intrinsic* is then the mean of the other three drives by weight."""
    life = Life()
    verdict = life.does(_files(act, READ, UNSEEN))
    driven = life.measured.drives

    assert driven.social is None
    mean = (0.3 * driven.curiosity + 0.3 * driven.competence + 0.2 * driven.autonomy) / 0.8
    assert driven.intrinsic == pytest.approx(mean)
    assert "no person has spoken" in _score(verdict, "intrinsic").explanation


def test_what_the_agent_measured_moves_its_needs(act: MakeAct) -> None:
    """A lesson counts for the act; a resource that ran low is applied with the drift and is not the act's."""
    life = Life(dict.fromkeys(SATISFIED, 0.5))
    events = ("resource_low", "learned_something", "unheard_of")

    life.does(act(tool="notes", args={"operation": "remember"}, effect=MeasuredEffect(need_events=events)))

    assert [change.why for change in life.changed.changes] == ["resource_low", *["learned_something"] * 2]
    assert life.changed.before["sustainability"] == pytest.approx(0.2)
    assert set(life.changed.drift) == {"curiosity", "excellence"}
    assert life.changed.after["curiosity"] == pytest.approx(0.5 - 0.02 + 0.2)
    assert life.changed.score is not None
    assert life.changed.score.value == pytest.approx(0.5 * (0.25 + 0.20))


@pytest.mark.parametrize(
    ("tool", "args", "effect", "lowered"),
    [
        ("filesystem", READ, MeasuredEffect(previous_path="b.py", target="a.py"), {"composable": 0.9}),
        ("filesystem", READ, MeasuredEffect(previous_path="lib/b.py", target="src/a.py"), {"composable": 0.8}),
        ("filesystem", READ, MeasuredEffect(previous_path="src", target="src/a.py"), {}),
        ("filesystem", READ, MeasuredEffect(previous_path="src/a.py", target="src"), {}),
        ("filesystem", READ, MeasuredEffect(previous_path=".", target="src"), {}),
        ("filesystem", READ, MeasuredEffect(target="src/a.py"), {}),
        ("filesystem", WRITE, MeasuredEffect(paths=("a",), lines_changed=201), {"curated": 0.7, "ethical": 0.9}),
        ("shell", {"command": "make"}, MeasuredEffect(paths=("a",), lines_changed=9), {"ethical": 0.9}),
        ("notes", {"operation": "recall"}, MeasuredEffect(opened=6), {"curated": 0.7}),
        ("notes", {"operation": "recall"}, MeasuredEffect(opened=5), {}),
        ("reply", {"text": "OK"}, MeasuredEffect(kind="answer"), {"joy_inducing": 0.55}),
        ("shell", {"command": "ls"}, MeasuredEffect(context=ContextUse(tokens=98, window=100)), {"generative": 0.6}),
    ],
)
def test_an_act_is_judged_in_its_domain(
    act: MakeAct, tool: str, args: dict[str, Any], effect: MeasuredEffect, lowered: dict[str, float]
) -> None:
    """Reading navigates, changing edits, recalling opens a portal, a reply is chat; nothing else is lowered."""
    context = ServiceContext(Settings(), Path())
    said: RewardAssigned = bind(reward, context).handle(act(tool=tool, args=args, effect=effect))

    assert {one.name: one.score for one in said.principles if one.score < 1.0} == pytest.approx(lowered)


def test_without_a_measured_effect_the_rules_are_as_before(act: MakeAct) -> None:
    """An old event is paid by its status, repeats by its fingerprint, and starves no total."""
    life = Life(STARVED)
    verdicts = [life.does(act(cycle, args={"command": f"ls {cycle}"}, output="a file")) for cycle in range(2)]

    assert _score(verdicts[0], "execution").value == 1.0
    assert _score(verdicts[0], "starving").status == "not_applicable"
    assert life.measured.repeats == 2
    assert life.measured.drives.social == 0.0


CHECKS = st.one_of(
    st.builds(CheckRun, ran=st.booleans(), changed_since=st.booleans()), st.builds(CheckRun, no_result=st.just(True))
)
EFFECTS = st.builds(
    MeasuredEffect,
    kind=st.sampled_from(["none", "information", "change", "progress", "answer"]),
    paths=st.sampled_from([(), ("a",)]),
    information=st.builds(Information, new=st.integers(0, 9), finished_file=st.booleans()),
    noise=st.booleans(),
    target=st.none() | st.text(max_size=3),
    checks=st.lists(CHECKS, max_size=2).map(tuple),
    previous_path=st.none() | st.text(max_size=3),
    opened=st.integers(0, 9),
    lines_changed=st.integers(0, 400),
    context=st.none() | st.builds(ContextUse, tokens=st.integers(0, 99), window=st.integers(1, 99)),
    skills_on_offer=st.integers(0, 60),
    need_events=st.lists(
        st.sampled_from(["learned_something", "new_topic", "resource_low", "resource_recovered", "?"]), max_size=3
    ).map(tuple),
)
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]),
        st.sampled_from(["success", "error", "timeout", "blocked", "unknown"]),
        st.sampled_from(["shell", "filesystem", "reply", "notes", "telescope"]),
        st.none() | EFFECTS,
        st.sampled_from(["achieved", "partial", "neutral", "error"]),
    ),
    min_size=1,
    max_size=6,
)


@given(acts=ACTS, levels=st.fixed_dictionaries(dict.fromkeys(SATISFIED, st.floats(0.0, 1.0))))
def test_every_score_of_every_effect_is_in_its_range(
    act: MakeAct,
    check: MakeCheck,
    acts: list[tuple[str, str, str, MeasuredEffect | None, str]],
    levels: dict[str, float],
) -> None:
    """No effect makes a rule raise; every part has come, the lines add up, and a blocked act never gains."""
    life = Life(levels)
    for cycle, (kind, status, tool, effect, outcome) in enumerate(acts):
        goals: tuple[GoalCheck, ...] = (check(outcome),)
        verdict = life.does(act(cycle, kind, status=status, tool=tool, args=READ, effect=effect, goals=goals))

        assert math.fsum(line.amount for line in verdict.breakdown) == verdict.total
        assert -1.5 <= verdict.total <= 1.0
        for part, score in zip(life.parts, verdict.scores, strict=False):
            assert score.value is None or part.range[0] <= score.value <= part.range[1]
        if status == "blocked" and kind != "INVALID":  # of an invalid reply nothing is run that could be blocked
            assert verdict.total <= 0.0


@given(effect=EFFECTS, status=st.sampled_from(["success", "error", "timeout", "blocked", "unknown"]))
def test_a_call_is_one_of_success_idle_and_failure(act: MakeAct, effect: MeasuredEffect, status: str) -> None:
    """Blocked is always a failure, a check that ran never, and an effect is idle only beside a failed load of tests."""
    result = tool_result(act(status=status, effect=effect))

    assert (result is None) == (status == "unknown")
    if result == "idle" and not any(check.no_result for check in effect.checks):
        assert effect.kind == "none"
    if result == "failure":
        assert status == "blocked" or not any(check.ran for check in effect.checks)
    if status == "blocked":
        assert result == "failure"


def test_a_score_of_starving_survives_the_wire(act: MakeAct) -> None:
    """It comes with `needs.changed`, beside the part *needs*."""
    life = Life(STARVED)
    life.does(_files(act, READ, UNSEEN))

    assert [score.component for score in life.changed.beside] == ["starving"]
    assert NeedsChanged.model_validate_json(life.changed.model_dump_json()) == life.changed
    assert isinstance(life.changed.beside[0], Score)


@pytest.mark.parametrize("status", ["error", "timeout"])
@pytest.mark.parametrize("effect", [None, MeasuredEffect()])
def test_a_tool_that_could_not_be_used_says_nothing_of_the_agent(
    act: MakeAct, effect: MeasuredEffect | None, status: str
) -> None:
    """A device that was not reached: its execution is not applicable, no need falls, the gate stays open, and the tool
    was not used. The form earns what it earns."""
    life = Life(dict.fromkeys(SATISFIED, 0.5))
    call = act(tool="device", args={"name": "light", "value": "on"}, status=status, effect=effect)
    away = call.model_copy(update={"outcome": call.outcome.model_copy(update={"unavailable": True})})

    verdict = life.does(away)

    assert _score(verdict, "execution").status == "not_applicable"
    assert _score(verdict, "execution").explanation.endswith("for a reason outside of the agent.")
    assert (_score(verdict, "ethical").value, life.changed.changes) == (1.0, ())
    assert (_score(verdict, "exploration").value, verdict.total) == (0.0, pytest.approx(0.15))
    assert tool_result(away) is None

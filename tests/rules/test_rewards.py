"""The built-in rules of the scorer reward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import ExecutionValues, FormatValues, GoalValues, RewardSettings, Settings
from conch.consumer import ServiceContext, bind
from conch.rewards import PRINCIPLES, builtin_scores, execution_reward, goal_reward, weight_set
from conch_schemas import ActionTaken, Constraint, Decoding, GoalCheck, Score
from conch_services.reward.consumer import reward

Act = Callable[..., ActionTaken]
Check = Callable[..., GoalCheck]

SETTINGS = RewardSettings()


def _scores(action: ActionTaken, settings: RewardSettings = SETTINGS) -> dict[str, Score]:
    return {score.component: score for score in builtin_scores(action, settings)}


@pytest.mark.parametrize(
    ("kind", "valid", "success", "value"),
    [
        ("TOOL", True, True, 1.0),
        ("TOOL", True, False, -0.3),
        ("DO_NOTHING", True, False, 0.2),
        ("REFLECT", True, True, 0.2),
        ("TOOL", False, True, 0.0),
        ("INVALID", False, False, 0.0),
        ("INVALID", True, True, 0.0),
    ],
)
def test_execution_pays_by_kind_validity_and_status(kind: str, valid: bool, success: bool, value: float) -> None:
    """A tool earns or costs, a quiet act earns a little, an invalid reply earns nothing."""
    assert execution_reward(kind, valid, success) == value


@pytest.mark.parametrize("status", ["error", "timeout", "blocked"])
def test_a_tool_that_did_not_succeed_costs(act: Act, status: str) -> None:
    """Error, timeout and blocked all cost 0.3, whatever the output says."""
    score = _scores(act(status=status, output="success! all done"))["execution"]

    assert score.value == -0.3
    assert status in score.explanation


def test_an_unknown_outcome_is_not_scored_as_execution(act: Act) -> None:
    """After a crash nobody knows how the act came out, for its goals either; its form is still known."""
    scores = _scores(act(status="unknown"))

    assert (scores["execution"].status, scores["execution"].value) == ("not_applicable", None)
    assert (scores["goal"].status, scores["goal"].value) == ("not_applicable", None)
    assert "nobody knows" in scores["goal"].explanation
    assert "No goal is active" not in scores["goal"].explanation
    assert scores["format"].value == 0.5


def test_a_constrained_reply_has_no_format_score(act: Act) -> None:
    """Format abstains where a constraint held the reply, unless the settings want it."""
    assert _scores(act(constrained=True))["format"].status == "not_applicable"
    assert _scores(act(constrained=True), RewardSettings(abstain_when_constrained=False))["format"].value == 0.5


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ("grammar", "A grammar"),
        ("schema", "A JSON schema"),
        ("tools", "A required call of a tool"),
        (None, "A constraint"),
    ],
)
def test_the_explanation_names_the_constraint(act: Act, held: Constraint | None, says: str) -> None:
    """Scored or not, a reply that was held is not praised for its form."""
    decoding = Decoding(engine="e", model="m", constraint=held) if held is not None else None
    taken = act(constrained=True).model_copy(update={"decoding": decoding})

    wanted = RewardSettings(abstain_when_constrained=False)
    assert _scores(taken)["format"].explanation == f"{says} constrained the reply, so its form says nothing."
    assert _scores(taken, wanted)["format"].explanation == f"The reply is valid. {says} constrained it."
    assert "constrained" not in _scores(act())["format"].explanation


def test_an_invalid_reply_says_why(act: Act) -> None:
    """The format score of an invalid reply is −1 and names the parser's reason."""
    score = _scores(act(kind="INVALID"))["format"]

    assert score.value == -1.0
    assert "this is prose" in score.explanation


def test_goal_is_not_applicable_without_an_active_goal(act: Act) -> None:
    """No goal, no goal score: it is not 0."""
    assert _scores(act())["goal"].status == "not_applicable"


def test_of_several_goals_the_best_outcome_counts(act: Act, check: Check) -> None:
    """A neutral and a broken check beside an achieved goal take nothing from it."""
    goals = (check("neutral"), check("achieved", measure=1.0), check("error"), check("partial"))

    assert _scores(act(goals=goals))["goal"].value == 2.0


def test_a_neutral_goal_beside_a_broken_check_is_scored(act: Act, check: Check) -> None:
    """One check that could be run is enough for a score."""
    assert _scores(act(goals=(check("error"), check("neutral"))))["goal"].value == 0.0


def test_goals_whose_checks_all_broke_are_an_error(act: Act, check: Check) -> None:
    """Checks that could not be run say nothing, and the score says that."""
    score = _scores(act(goals=(check("error"), check("error"))))["goal"]

    assert (score.status, score.value) == ("error", None)
    assert "exit status 127" in score.explanation


def test_an_outcome_that_is_no_progress_earns_nothing() -> None:
    """Only achieved and partial pay."""
    assert [goal_reward(outcome) for outcome in ("achieved", "partial", "neutral", "whatever")] == [2.0, 1.0, 0.0, 0.0]


@given(
    kind=st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]),
    valid=st.booleans(),
    status=st.sampled_from(["success", "error", "timeout", "blocked", "unknown", "none"]),
    constrained=st.booleans(),
    outcomes=st.lists(st.sampled_from(["achieved", "partial", "neutral", "error"]), max_size=3),
)
def test_every_act_has_three_scores_in_range(
    act: Act, check: Check, kind: str, valid: bool, status: str, constrained: bool, outcomes: list[str]
) -> None:
    """No act makes a rule raise, and each score explains itself."""
    goals = tuple(check(outcome) for outcome in outcomes)
    action = act(kind=kind, valid=valid, status=status, constrained=constrained, goals=goals)

    scores = builtin_scores(action, SETTINGS)

    assert [score.component for score in scores] == ["format", "execution", "goal"]
    assert all(score.explanation for score in scores)


def test_the_consumer_says_the_same_fact_for_the_same_act(act: Act) -> None:
    """One event with five scores and seven principles an act, its id derived from the act's."""
    spec = bind(reward, ServiceContext(Settings(), Path()))
    action = act(3)

    first, second = spec.handle(action), spec.handle(action)

    assert first.id == second.id != action.id
    assert (first.causation_id, first.action_id, first.cycle) == (action.id, action.action_id, 3)
    assert (first.scorer, first.version) == ("reward", "5")
    assert [score.component for score in first.scores] == ["format", "execution", "goal", "alignment", "ethical"]
    assert [principle.name for principle in first.principles] == list(PRINCIPLES)


def test_the_values_of_the_rules_are_settings(act: Act) -> None:
    """Each verdict has the value that the settings give it, and the range of the component is that of its values."""
    settings = RewardSettings(
        format=FormatValues(valid=0.25, invalid=-2.0),
        execution=ExecutionValues(success=3.0, failed=-0.5, idle=0.1, invalid=-0.4, resting=-0.1, fruitless=-0.7),
        goal=GoalValues(achieved=5.0, partial=2.0, neutral=-1.0),
    )
    acts = (("TOOL", True, True), ("TOOL", True, False), ("DO_NOTHING", True, False), ("INVALID", False, False))
    verdicts = [execution_reward(*one, values=settings.execution) for one in acts]

    scores = {score.component: score for score in builtin_scores(act(0), settings)}
    ranges = {part.component: part.range for part in weight_set((), settings)}

    assert verdicts == [3.0, -0.5, 0.1, -0.4]
    assert [goal_reward(outcome, settings.goal) for outcome in ("achieved", "partial", "neutral")] == [5.0, 2.0, -1.0]
    assert (scores["format"].value, scores["execution"].value) == (0.25, 3.0)
    assert {name: score.range for name, score in scores.items()} == {name: ranges[name] for name in scores}
    assert (ranges["format"], ranges["execution"], ranges["goal"]) == ((-2.0, 0.25), (-0.7, 3.0), (-1.0, 5.0))


def test_a_rule_whose_values_are_all_equal_is_refused() -> None:
    """It would tell nothing apart, and its component would have no range."""
    with pytest.raises(ValueError, match="the rule would tell nothing apart"):
        FormatValues(valid=0.5, invalid=0.5)

"""The constitution: what each rule lowers, what the seven principles come to, what an act of the cycle is by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.errors import ContractError
from conch.rewards import (
    PRINCIPLES,
    PrincipleScore,
    TurnResult,
    alignment,
    band,
    changes_something,
    constitution_scores,
    constitutional_reward,
    generative_score,
    principles_of,
    score_principles,
)
from conch_schemas import ActionTaken
from conch_services.reward.consumer import reward

Act = Callable[..., ActionTaken]
UNIT = st.floats(0.0, 1.0)
SAID = "A reply that is comfortably longer than twenty characters."


def _evidence(scores: PrincipleScore) -> dict[str, str]:
    return {principle.name: principle.evidence for principle in scores.principles()}


def _principles(act: ActionTaken) -> PrincipleScore:
    found = principles_of(act)
    assert found is not None
    return found


def test_a_perfect_score_is_perfect() -> None:
    """Seven ones total 8.7 to the bit, which is the band perfect."""
    assert PrincipleScore().weighted_total() == 8.7
    assert band(PrincipleScore().weighted_total()) == "perfect"
    assert set(PrincipleScore().to_dict().values()) == {1.0}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (constitutional_reward("chat", TurnResult(response="Great!")), 8.28),
        (PrincipleScore(ethical=0.8, composable=0.9), 8.15),
    ],
)
def test_the_rulings_hold(scores: PrincipleScore, expected: float) -> None:
    """“Great!” totals 8.28; ethical 0.8 with composable 0.9 totals 8.15."""
    assert scores.weighted_total() == pytest.approx(expected, abs=1e-12)


def test_without_a_turn_result_every_principle_is_one() -> None:
    """Nothing is known, so nothing is lowered, and each says that there was no evidence."""
    scores = constitutional_reward("chat", None, has_mutations=True)

    assert scores == PrincipleScore()
    assert set(_evidence(scores).values()) == {"none"}


@pytest.mark.parametrize(
    ("changes", "passed", "ethical", "evidence"),
    [
        (False, True, 1.0, "none"),
        (False, False, 1.0, "none"),
        (True, True, 0.9, "git.push can change things, and passed"),
        (True, False, 0.5, "git.push can change things, and failed"),
    ],
)
def test_a_change_is_less_ethical_and_a_failed_one_least(
    changes: bool, passed: bool, ethical: float, evidence: str
) -> None:
    """What changes nothing harms nothing."""
    scores = constitutional_reward("git.push", TurnResult(tools_passed=passed, response=SAID), changes)

    assert (scores.ethical, _evidence(scores)["ethical"]) == (ethical, evidence)


@pytest.mark.parametrize(
    ("tools", "expected"), [(0, 1.0), (5, 1.0), (6, 0.9), (8, 0.7), (10, 0.5), (11, 0.5), (99, 0.5)]
)
def test_many_tools_are_less_composable(tools: int, expected: float) -> None:
    """From the sixth on each costs 0.1, down to 0.5; without a tool there is no evidence."""
    scores = constitutional_reward("chat", TurnResult(tools=("t",) * tools, response=SAID))

    assert scores.composable == pytest.approx(expected)
    assert (_evidence(scores)["composable"] == "none") == (tools == 0)


@pytest.mark.parametrize(("length", "expected"), [(0, 0.3), (1, 0.525), (2, 0.55), (19, 0.975), (20, 1.0), (21, 1.0)])
def test_a_short_reply_is_less_of_a_joy(length: int, expected: float) -> None:
    """By its characters, not its bytes."""
    scores = constitutional_reward("chat", TurnResult(response="é" * length))

    assert scores.joy_inducing == pytest.approx(expected)
    assert _evidence(scores)["joy_inducing"] == f"{length} characters said"


@pytest.mark.parametrize(
    ("used", "expected"),
    [(None, 1.0), (math.nan, 1.0), (-1.0, 1.0), (0.9, 1.0), (0.92, 0.9), (1.0, 0.5), (math.inf, 0.5)],
)
def test_a_full_context_is_less_generative(used: float | None, expected: float) -> None:
    """Beyond nine tenths it falls to a half; what is not known, or is no number, lowers nothing and is no evidence."""
    scores = constitutional_reward("chat", TurnResult(response=SAID, context_utilization=used))

    assert generative_score(used) == pytest.approx(expected) == scores.generative
    assert (_evidence(scores)["generative"] == "none") == (used is None or math.isnan(used))


@pytest.mark.parametrize(
    ("domain", "context", "lowered"),
    [
        ("navigation", {"nav_type": "sibling"}, {"composable": 0.9}),
        ("navigation", {"nav_type": "direct_jump"}, {"composable": 0.8}),
        ("navigation", {"nav_type": "parent"}, {}),
        ("navigation", {}, {}),
        ("navigation", {"nav_type": ["sibling"]}, {}),
        ("portal", {"expansion_count": 5}, {}),
        ("portal", {"expansion_count": 6}, {"curated": 0.7}),
        ("portal", {"expansion_count": -6}, {}),
        ("portal", {"expansion_count": math.nan}, {}),
        ("portal", {"expansion_count": math.inf}, {"curated": 0.7}),
        ("portal", {"expansion_count": "many"}, {}),
        ("edit", {"lines_changed": 200}, {}),
        ("edit", {"lines_changed": 201}, {"curated": 0.7}),
        ("edit", {"lines_changed": None}, {}),
        ("chat", {"turn_result": TurnResult(response="OK")}, {"joy_inducing": 0.55}),
        ("chat", {}, {}),
        ("chat", {"turn_result": {"response": "OK"}}, {}),
        ("poetry", {"lines_changed": 10**9}, {}),
    ],
)
def test_each_domain_lowers_its_own(domain: str, context: dict[str, Any], lowered: dict[str, float]) -> None:
    """And nothing else; what is no count says nothing, an unknown domain lowers nothing."""
    scores = score_principles(domain, "act", context)

    assert scores.to_dict() == PrincipleScore().to_dict() | lowered
    assert all(_evidence(scores)[name] != "none" for name in lowered)


@pytest.mark.parametrize("count", [-1, math.nan, "many", None, [7]])
@pytest.mark.parametrize(("domain", "key"), [("portal", "expansion_count"), ("edit", "lines_changed")])
def test_what_is_no_count_is_no_evidence(domain: str, key: str, count: Any) -> None:
    """A principle that is 1 for want of a number says so; one that is 1 by a number names it."""
    assert set(_evidence(score_principles(domain, "act", {key: count})).values()) == {"none"}
    assert _evidence(score_principles(domain, "act", {key: 3}))["curated"].startswith("3 ")


@given(
    tools=st.integers(0, 40),
    said=st.text(max_size=40),
    passed=st.booleans(),
    changes=st.booleans(),
    used=st.none() | st.floats(),
)
def test_a_rule_can_only_lower_and_says_why(
    tools: int, said: str, passed: bool, changes: bool, used: float | None
) -> None:
    """Each principle is in 0.3..1, one that was lowered has evidence, and the same turn is the same again."""
    turn = TurnResult(tools_passed=passed, tools=("t",) * tools, response=said, context_utilization=used)

    scores = constitutional_reward("chat", turn, changes)

    assert scores == constitutional_reward("chat", turn, changes)
    assert all(0.3 <= score <= 1.0 for score in scores.to_dict().values())
    assert all(one.evidence != "none" for one in scores.principles() if one.score < 1.0)
    assert 0.0 < scores.weighted_total() <= 8.7


@given(scores=st.fixed_dictionaries(dict.fromkeys(PRINCIPLES, UNIT)), threshold=UNIT)
def test_the_total_and_the_alignment_agree(scores: dict[str, float], threshold: float) -> None:
    """Of all seven, alignment is the total over 8.7; compliant is none below the threshold; names' case is nothing."""
    result = alignment(scores, threshold)
    loud = {name.upper(): score for name, score in scores.items()}

    assert result.total == pytest.approx(PrincipleScore(**scores).weighted_total() / 8.7)
    assert 0.0 <= result.total <= 1.0
    assert result.violations == tuple(name for name, score in scores.items() if score < threshold)
    assert result.compliant == (not result.violations)
    assert alignment(loud, threshold).total == result.total
    assert PrincipleScore.from_dict(loud) == PrincipleScore(**scores)


def test_alignment_of_nothing_is_nothing_and_compliant() -> None:
    """And of a principle that is not known the weight is 1."""
    assert alignment({}) == (0.0, True, ())
    assert alignment({"ethical": 1.0, "other": 0.0}) == (pytest.approx(2 / 3), False, ("other",))


def test_a_table_of_weights_replaces_the_whole_table() -> None:
    """A principle that the given table lacks weighs 1, not what it weighs by default."""
    assert PrincipleScore().weighted_total({"ETHICAL": 3.0}) == pytest.approx(9.0)
    assert PrincipleScore().weighted_total({}) == pytest.approx(7.0)


@given(scores=st.dictionaries(st.sampled_from([*PRINCIPLES, "other"]), UNIT))
def test_a_table_and_back(scores: dict[str, float]) -> None:
    """What is missing is 1, what is no principle is ignored, and the seven come back as they were."""
    read = PrincipleScore.from_dict(scores)

    assert list(read.to_dict()) == list(PRINCIPLES)
    assert read.to_dict() == {name: scores.get(name, 1.0) for name in PRINCIPLES}
    assert PrincipleScore.from_dict(read.to_dict()) == read


@pytest.mark.parametrize("score", [math.nan, math.inf, -0.1, 1.1, "good", None])
def test_a_score_that_is_none_is_refused(score: Any) -> None:
    """Not a number in 0..1: refused with the principle's name, never compliant, never taken for a 1."""
    with pytest.raises(ContractError, match="principle ethical"):
        PrincipleScore.from_dict({"ethical": score})
    with pytest.raises(ContractError, match="principle ethical"):
        alignment({"ethical": score})


@pytest.mark.parametrize("score", [math.nan, -0.1, 1.1])
@pytest.mark.parametrize("name", PRINCIPLES)
def test_a_principle_score_is_never_out_of_range(name: str, score: float) -> None:
    """Whichever of the seven it is."""
    with pytest.raises(ContractError, match=f"principle {name}"):
        PrincipleScore(**{name: score})


def test_a_principle_score_does_not_change() -> None:
    """It is frozen."""
    with pytest.raises(FrozenInstanceError):
        PrincipleScore().ethical = 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        *((9.0, "perfect"), (8.7, "perfect"), (8.69, "good"), (7.0, "good"), (6.99, "concerning")),
        *((5.0, "concerning"), (4.99, "poor"), (-1.0, "poor"), (math.nan, "poor")),
    ],
)
def test_the_bands(total: float, expected: str) -> None:
    """From 8.7 perfect, from 7 good, from 5 concerning, else poor; what is no number is poor."""
    assert band(total) == expected


WRITE = {"operation": "write", "path": "a", "content": "b"}


@pytest.mark.parametrize(
    ("tool", "args", "status", "expected"),
    [
        ("filesystem", WRITE, "success", True),
        ("filesystem", WRITE, "error", True),
        ("filesystem", WRITE, "timeout", True),
        ("filesystem", WRITE, "blocked", False),
        ("filesystem", WRITE, "unknown", False),
        ("filesystem", WRITE | {"operation": "read"}, "error", False),
        ("git", {"operation": "push"}, "error", True),
        ("git", {"operation": "log"}, "error", False),
        ("git", {"operation": "branch"}, "success", False),
        ("git", {"operation": "branch", "args": "-D main"}, "success", True),
        ("git", {"operation": "diff", "args": "--no-index --output=README.md a b"}, "error", True),
        ("git", {"operation": "log", "args": "-3 --outp x"}, "success", True),
        ("git", {"operation": "log", "args": "--oneline -- notes"}, "error", False),
        ("shell", {"command": "rm -r ."}, "success", True),
        ("reply", {"text": "hello"}, "success", False),
        ("notes", {"operation": "remember", "text": "a"}, "success", False),
    ],
)
def test_only_what_can_change_something_is_a_change(
    act: Act, tool: str, args: dict[str, Any], status: str, expected: bool
) -> None:
    """By the tool and its operation; what was blocked, or is lost in a crash, is none."""
    assert changes_something(act(tool=tool, args=args, status=status)) is expected


@pytest.mark.parametrize(("effect", "expected"), [("read", False), ("workspace", True), ("world", True), (None, True)])
def test_a_tool_of_ones_own_changes_what_it_declares(act: Act, effect: Any, expected: bool) -> None:
    """An operation without a declared effect counts as one on the world: it is a change."""
    done = act(tool="telescope", args={"operation": "turn"}, status="success")
    action = done.model_copy(update={"action": done.action.model_copy(update={"declared_effect": effect})})

    assert changes_something(action) is expected


def test_a_failed_change_is_below_the_floor_of_the_gate(act: Act) -> None:
    """An act is scored as a turn: alignment is its normalised total, with all evidence and what has none."""
    action = act(tool="filesystem", args=WRITE, status="error")

    aligned, ethical = constitution_scores(_principles(action))

    assert aligned.value == pytest.approx((8.7 - 1.0) / 8.7)
    assert aligned.explanation == (
        "ethical 0.5 (filesystem.write can change things, and failed), composable 1 (1 tool), joy_inducing 1 "
        f"({len(action.raw)} characters said); evidence none: tasteful, curated, heterarchical, generative."
    )
    assert (ethical.value, ethical.component) == (0.5, "ethical")


def test_what_is_said_to_a_person_is_the_reply(act: Act) -> None:
    """Of `reply` the text counts, of any other act the raw reply of the mind."""
    said = _principles(act(tool="reply", args={"text": "OK"}))
    done = _principles(act(kind="DO_NOTHING"))

    assert said.joy_inducing == pytest.approx(0.55)
    assert said.evidence["joy_inducing"] == "2 characters said"
    assert done.joy_inducing < 1.0


@given(
    kind=st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]),
    valid=st.booleans(),
    status=st.sampled_from(["success", "error", "timeout", "blocked", "unknown", "none"]),
    tool=st.sampled_from(["shell", "filesystem", "git", "reply", "device", "other"]),
    args=st.dictionaries(
        st.sampled_from(["operation", "text", "args"]), st.none() | st.text(max_size=3) | st.just([1])
    ),
)
def test_every_act_can_be_held_to_the_principles(
    act: Act, kind: str, valid: bool, status: str, tool: str, args: dict[str, Any]
) -> None:
    """No act makes the rules raise; both scores are in 0..1 and say why. Without an outcome or a valid reply there is
    nothing to judge by."""
    scores = constitution_scores(principles_of(act(kind=kind, valid=valid, status=status, tool=tool, args=args)))

    assert [score.component for score in scores] == ["alignment", "ethical"]
    assert all(score.explanation for score in scores)
    unjudged = status == "unknown" or not valid or kind == "INVALID"
    assert all((score.value is None) == unjudged for score in scores)
    assert all(score.value is None or 0.0 <= score.value <= 1.0 for score in scores)


def test_an_act_with_an_unknown_outcome_is_held_to_no_principle(act: Act) -> None:
    """After a crash nothing is known of the act: neither compliance nor a violation is claimed."""
    lost = act(status="unknown")

    scores = constitution_scores(principles_of(lost))

    assert principles_of(lost) is None
    assert {score.status for score in scores} == {"not_applicable"}
    assert all("nobody knows how it came out" in score.explanation for score in scores)


@pytest.mark.parametrize("kind", ["INVALID", "TOOL"])
def test_an_invalid_reply_is_held_to_no_principle(act: Act, kind: str) -> None:
    """Nothing was executed, so nothing complies and nothing is perfect; the format alone is scored, and the total with
    *alignment* in it leaves it out."""
    spoilt = act(kind=kind, valid=False, status="none")

    assigned = bind(reward, ServiceContext(Settings(), Path())).handle(spoilt)
    scores = {score.component: score for score in assigned.scores}

    assert assigned.principles == ()
    assert {scores[name].status for name in ("alignment", "ethical")} == {"not_applicable"}
    assert "The reply is not valid, so nothing was executed" in scores["alignment"].explanation
    assert (scores["format"].value, scores["execution"].value) == (-1.0, 0.0)

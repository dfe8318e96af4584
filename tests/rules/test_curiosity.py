"""Curiosity: novelty, progress, drives, exploration."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conch.config import CuriositySettings, IntrinsicMotivationSettings, RewardSettings, Settings
from conch.consumer import ServiceContext, bind
from conch.curiosity import (
    CuriosityMeasure,
    CuriosityState,
    challenge_level,
    entropy,
    exploration_bonus,
    exploration_reward,
    fold,
    learning_progress,
    novelty,
    repetition_penalty,
)
from conch.folds.dedupe import SEEN_LIMIT, act_fingerprint, holds, new_information, with_latest, with_new
from conch_schemas import (
    ActionTaken,
    FileCheck,
    Goal,
    GoalCheck,
    GoalSet,
    MessageReceived,
    Score,
    decode,
    encode,
)
from conch_services.curiosity.consumer import curiosity

Act = Callable[..., ActionTaken]
Check = Callable[..., GoalCheck]
Fact = ActionTaken | GoalSet | MessageReceived


REWARDS = RewardSettings()
WINDOWS = CuriositySettings().windows


def _run(*facts: Fact, rewards: RewardSettings = REWARDS) -> tuple[CuriosityState, list[CuriosityMeasure]]:
    state, measures = CuriosityState(), []
    for fact in facts:
        state, measure = fold(state, fact, rewards)
        measures += [measure] if measure else []
    return state, measures


def _message(name: str) -> MessageReceived:
    return MessageReceived(id=name, source="conch/echo/x", agent="echo", text="hello")


def _goal(name: str, by: str) -> GoalSet:
    goal = Goal(id=name, statement="a file", check=FileCheck(path="a"))
    return GoalSet.model_validate({"id": name, "source": "conch/echo/x", "agent": "echo", "goal": goal, "by": by})


def test_an_act_is_new_once(act: Act) -> None:
    """Met n times in a row, novelty is about 1/√n; numbers in the output make no difference."""
    _, measures = _run(*(act(cycle, output=f"{cycle} files") for cycle in range(4)))

    assert measures[0].novelty == 1.0
    assert [measure.novelty for measure in measures] == pytest.approx(
        [1 / math.sqrt(n) for n in (1, 2, 3, 4)], rel=0.02
    )
    assert len({measure.fingerprint for measure in measures}) == 1


def test_what_was_met_long_ago_is_new_again(act: Act) -> None:
    """A count halves every 50 acts and is forgotten in the end."""
    others = (act(cycle, args={"command": "x" * cycle}) for cycle in range(1, 300))

    state, measures = _run(act(0, "REFLECT"), *others, act(300, "REFLECT"))

    assert measures[-1].novelty == 1.0
    assert len(state.sightings) <= 266


def test_skill_arguments_result_and_status_make_the_fingerprint(act: Act) -> None:
    """Acts that differ in any of the four are different."""
    acts = [
        act(0, output="a"),
        act(0, output="b"),
        act(0, output="a", status="error"),
        act(0, output="a", args={"command": "pwd"}),
        act(0, output="a", tool="git"),
        act(0, "REFLECT", output="a"),
    ]

    assert len({act_fingerprint(action) for action in acts}) == len(acts)


def test_only_a_successful_output_is_information(act: Act) -> None:
    """Failures, quiet acts and blank outputs bring none; nothing is remembered of them."""
    for words in ({"status": "error", "output": "x"}, {"kind": "REFLECT", "output": "x"}, {"output": " "}):
        assert new_information("", act(0, **words)) == ("", False)


def test_outputs_met_again_are_remembered_longest(act: Act) -> None:
    """The memory of outputs is bounded; what is met again moves to its young end."""
    seen = ""
    seen, _ = new_information(seen, act(0, output="daily"))
    assert new_information(seen, act(0, output="daily")) == (seen, False)
    for cycle in range(SEEN_LIMIT - 1):
        seen, _ = new_information(seen, act(cycle, output="x" * (cycle + 1)))
    seen, again = new_information(seen, act(0, output="daily"))
    seen, _ = new_information(seen, act(0, output="one more"))

    assert not again
    assert len(seen) == SEEN_LIMIT * 8
    assert new_information(seen, act(0, output="daily"))[1] is False
    assert new_information(seen, act(0, output="x"))[1] is True


def test_a_digest_is_found_where_one_begins() -> None:
    """What two neighbours make together is no digest of theirs."""
    digests = with_new(with_new("", "00001111", 3), "22223333", 3)

    assert holds(digests, "00001111")
    assert holds(digests, "22223333")
    assert not holds(digests, "11112222")
    assert with_new(with_latest(digests, "00001111"), "44445555", 2) == "0000111144445555"


def test_a_history_from_before_goes_on(act: Act) -> None:
    """A state that kept lists of digests and named every figure is read as what it says."""
    after, _ = _run(act(0, output="news"), act(1, "REFLECT"))
    fields = after.model_dump(mode="json")
    before = fields | {
        "seen": [after.seen[:8]],
        "sightings": {name: {"count": count, "at": at} for name, (count, at) in fields["sightings"].items()},
        "deeds": [dict(zip(("skill", "success", "own", "asked"), deed, strict=True)) for deed in fields["deeds"]],
    }

    assert CuriosityState.model_validate_json(json.dumps(before)) == after


def test_the_largest_discovery_pays(act: Act, check: Check) -> None:
    """First use 0.3, new information 0.5, a novel problem solved 1.0: the largest, not the sum."""
    solved = (check("achieved", measure=1.0, failed_before=True),)
    _, measures = _run(
        act(0),
        act(1, output="news"),
        act(2, goals=solved),
        act(3, goals=(check("achieved"), check("partial", failed_before=True))),
        act(4, "INVALID"),
    )

    assert [measure.score.value for measure in measures] == [0.3, 0.5, 1.0, 0.0, 0.0]
    assert [measure.events for measure in measures] == [
        ("new_tool",),
        ("new_information",),
        ("novel_problem_solved",),
        (),
        (),
    ]


def test_a_blocked_or_invalid_call_is_no_use_of_a_tool(act: Act) -> None:
    """The first use is the first that really ran, even into an error."""
    state, measures = _run(act(0, status="blocked"), act(1, valid=False), act(2, status="error"), act(3))

    assert [bool(measure.events) for measure in measures] == [False, False, True, False]
    assert [measure.exploration_bonus for measure in measures] == pytest.approx([0.5, 0.0, 0.5, 0.3 * math.exp(-1 / 5)])
    assert state.uses == {"shell": 2}


def test_an_unknown_outcome_is_not_scored(act: Act) -> None:
    """After a crash: measured, not scored, no use, no try."""
    state, measures = _run(act(0, status="unknown"))

    assert (measures[0].score.status, measures[0].score.value) == ("not_applicable", None)
    assert (state.uses, state.tries) == ({}, {})

    assert {score.status for score in measures[0].beside} == {"not_applicable"}


def _beside(measure: CuriosityMeasure) -> dict[str, Score]:
    return {score.component: score for score in measure.beside}


def test_the_same_again_costs_more_each_time_up_to_a_half(act: Act) -> None:
    """By 0.1 for each time before among the last 20 acts, at most 0.5; numbers in the output make no difference."""
    _, measures = _run(*(act(cycle, output=f"{cycle} files") for cycle in range(8)))

    assert [measure.repeats for measure in measures] == [1, 2, 3, 4, 5, 6, 7, 8]
    values = [_beside(measure)["repetition"].value for measure in measures]
    assert values == pytest.approx([0.0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.5, -0.5])
    assert math.copysign(1.0, values[0] or 0.0) == 1.0
    assert "8 times" in _beside(measures[-1])["repetition"].explanation


def test_a_repetition_is_forgotten_after_twenty_acts(act: Act) -> None:
    """The window is the last 20 acts with this one: the 19th act before still counts, the 20th does not."""
    others = [act(cycle, args={"command": "x" * cycle}) for cycle in range(1, 20)]

    near = _run(act(0), *others[:18], act(20))[1]
    far = _run(act(0), *others, act(20))[1]

    assert (near[-1].repeats, far[-1].repeats) == (2, 1)


def test_the_penalty_is_as_it_was_set(act: Act) -> None:
    """`rewards.repetition` and `rewards.repetition_most` are its step and its bound; 0 is none."""
    acts = [act(cycle) for cycle in range(4)]

    harsh = _run(*acts, rewards=RewardSettings(repetition=0.4, repetition_most=0.9))[1]
    none = _run(*acts, rewards=RewardSettings(repetition=0.0))[1]

    assert [_beside(one)["repetition"].value for one in harsh] == pytest.approx([0.0, -0.4, -0.8, -0.9])
    assert [_beside(one)["repetition"].value for one in none] == [0.0] * 4


@given(times=st.integers(-5, 10**6), each=st.floats(0.0, 1.0), most=st.floats(0.0, 1.0))
def test_a_penalty_stays_within_its_bound(times: int, each: float, most: float) -> None:
    """Never a gain, never more than its bound, never less for one time more."""
    penalty = repetition_penalty(times, each, most)

    assert -most <= penalty <= 0.0
    assert repetition_penalty(times + 1, each, most) <= penalty
    assert times > 1 or math.copysign(1.0, penalty) == 1.0


def test_diversity_is_told_of_fifty_acts(act: Act) -> None:
    """Before there are fifty it is not applicable; then it is the entropy, 0 for one skill alone."""
    _, measures = _run(*(act(cycle) for cycle in range(50)))
    diversity = [_beside(measure)["diversity"] for measure in measures]

    assert {score.status for score in diversity[:-1]} == {"not_applicable"}
    assert (diversity[-1].status, diversity[-1].value) == ("scored", 0.0) == ("scored", measures[-1].entropy)
    assert "there are 49" in diversity[-2].explanation


def test_the_mix_of_the_drives_is_a_score(act: Act) -> None:
    """`intrinsic` is what the drives come to, and names them."""
    _, measures = _run(act(0), act(1, "REFLECT"))

    for measure in measures:
        intrinsic = _beside(measure)["intrinsic"]
        assert intrinsic.value == measure.drives.intrinsic
        assert f"curiosity {measure.drives.curiosity:.2f}" in intrinsic.explanation


def test_a_history_that_counted_no_repetitions_begins_to(act: Act) -> None:
    """A state of before is read, and counts from there."""
    state, _ = _run(act(0), act(1))
    fields = state.model_dump(mode="json")
    del fields["latest"]

    _, measure = fold(CuriosityState.model_validate(fields), act(2), RewardSettings())

    assert measure is not None
    assert measure.repeats == 1


def test_an_event_without_a_name_pays_nothing() -> None:
    """Only the three discoveries pay."""
    assert exploration_reward(["something"]) == exploration_reward([]) == 0.0


def test_the_bonus_falls_with_use() -> None:
    """The steps of the bonus at 0, 1, 4, 5 uses."""
    assert [exploration_bonus(uses) for uses in (0, 1, 4, 5)] == pytest.approx(
        [0.5, 0.3 * math.exp(-0.2), 0.3 * math.exp(-0.8), 0.1 * math.exp(-0.25)]
    )
    assert exploration_bonus(0, valid_tool=False) == 0.0


def test_learning_is_the_rise_of_the_success_rate() -> None:
    """Recent half less earlier half; a fall and too few tries are none."""
    assert learning_progress([False, False, True, True]) == 1.0
    assert learning_progress([True, True, False, False]) == 0.0
    assert learning_progress([False, True, True]) == 0.0
    assert learning_progress([False, False, True, False, True]) == pytest.approx(2 / 3)


def test_a_challenge_is_greatest_where_seven_in_ten_succeed() -> None:
    """Peak at 0.7, none where nothing succeeds."""
    assert [challenge_level(rate) for rate in (0.7, 0.0, 1.0)] == pytest.approx([1.0, 0.0, 1 - 0.3 / 0.7])


def test_entropy_needs_many_skills_to_be_high() -> None:
    """0 for one skill, 1 where each act is another, little for going to and fro."""
    assert entropy(["a"] * 50) == entropy(["a"]) == entropy([]) == 0.0
    assert entropy(str(skill) for skill in range(50)) == 1.0
    assert entropy(["a", "b"] * 25) < 0.3


@given(skills=st.lists(st.sampled_from("abcdef"), max_size=60), on_offer=st.integers(0, 60))
def test_entropy_stays_within_the_unit(skills: list[str], on_offer: int) -> None:
    """However few skills are said to be on offer; it never falls because fewer are."""
    assert 0.0 <= entropy(skills, on_offer) <= 1.0
    if on_offer and len(skills) > 1:
        assert entropy(skills, on_offer) >= entropy(skills, on_offer + 1)


def test_entropy_is_relative_to_what_is_on_offer() -> None:
    """Three of twelve used evenly give 0.44, all twelve 1; of a single one there is nothing else to do."""
    assert entropy(["a", "b", "c"] * 16, 12) == pytest.approx(0.44, abs=0.003)
    assert entropy(list("abcdefghijkl") * 4, 12) == pytest.approx(1.0)
    assert entropy(["a"] * 50, 1) == 1.0


def test_the_numbers_of_curiosity_can_be_set(act: Act) -> None:
    """Values of discoveries, the bonus, the weights of the drives and the windows come from the settings."""
    given = {
        "discoveries": {"new_tool": 0.4},
        "bonus": {"first": 0.9},
        "windows": {"half_life": 2},
    }
    settings = CuriositySettings.model_validate(given)
    mix = IntrinsicMotivationSettings(
        curiosity_weight=1.0, competence_weight=0.0, autonomy_weight=0.0, social_weight=0.0
    )
    state, first = fold(CuriosityState(), act(0), REWARDS, settings, mix)
    for cycle in (1, 2):
        state, measure = fold(state, act(cycle), REWARDS, settings, mix)

    assert first is not None
    assert measure is not None
    assert (first.score.value, first.exploration_bonus) == (0.4, 0.9)
    assert first.drives.intrinsic == first.drives.curiosity
    assert measure.novelty == pytest.approx(1 / math.sqrt(1 + 2**-0.5 + 2**-1.0))


def test_weights_of_a_drive_that_do_not_sum_to_one_are_refused() -> None:
    """A drive of inputs in 0..1 would leave it."""
    with pytest.raises(ValidationError, match=r"sum to 1\.1, they must sum to 1"):
        CuriositySettings.model_validate({"autonomy": {"goals_set": 0.4}})


def test_social_is_the_share_of_messages_answered(act: Act) -> None:
    """None without messages; waiting messages make an act less the agent's own."""
    _, measures = _run(act(0), _message("m1"), _message("m2"), act(1, tool="reply", answered="m1"))

    assert [measure.drives.social for measure in measures] == [0.0, 0.5]
    assert measures[1].drives.autonomy == pytest.approx(0.4 * 0.5 + 0.3)


def test_goals_of_its_own_and_questions_move_autonomy(act: Act) -> None:
    """A goal that the agent set raises it; asking for help lowers it."""
    _, measures = _run(
        act(0),
        _goal("g1", "agent"),
        _goal("g2", "user"),
        act(1),
        act(2, tool="reply", args={"text": "Could you help? "}),
    )

    assert [measure.drives.autonomy for measure in measures] == pytest.approx([0.7, 0.85, 0.85 - 0.3 / 3])


def test_competence_grows_with_learning(act: Act) -> None:
    """Two failures, two successes: rate 0.5, improvement 1, challenge by the rate."""
    _, measures = _run(*(act(cycle, status="success" if cycle > 1 else "error") for cycle in range(4)))

    assert measures[-1].learning_progress == 1.0
    assert measures[-1].drives.competence == pytest.approx(0.4 * 0.5 + 0.3 + 0.3 * (1 - 0.2 / 0.7))


def test_every_window_has_a_bound(act: Act) -> None:
    """A long life takes no more room than a short one."""
    facts: list[Fact] = []
    for cycle in range(300):
        facts += [_message(f"m{cycle}"), _goal(f"g{cycle}", "agent"), act(cycle, output="ab" * cycle)]

    state, _ = _run(*facts)

    assert (len(state.messages), len(state.goals), len(state.deeds)) == (WINDOWS.messages, WINDOWS.goals, WINDOWS.acts)
    assert len(state.tries["shell"]) == WINDOWS.tries
    assert len(state.latest) == len(state.fruitless) == 16 * REWARDS.repetition_acts
    assert len(state.model_dump_json()) < 64 * 1024


def test_novelty_counts_from_one() -> None:
    """What was never counted is as new as can be."""
    assert novelty(0) == novelty(1) == 1.0


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]),
        st.sampled_from(["success", "error", "timeout", "blocked", "unknown"]),
        st.sampled_from(["shell", "git", "reply"]),
        st.text("ab", max_size=2),
    ),
    max_size=10,
)


@given(acts=ACTS)
def test_a_repeated_fact_changes_nothing(act: Act, acts: list[tuple[str, str, str, str]]) -> None:
    """Each fact twice and the whole history again leave measures as they were; every drive is in 0..1."""
    history: list[Fact] = [_message("m1"), _goal("g1", "agent")]
    for cycle, (kind, status, tool, out) in enumerate(acts):
        history.append(act(cycle, kind, status=status, tool=tool, output=out, answered="m1" if out == "a" else None))

    once = _run(*history)
    twice = _run(*(fact for fact in history for _ in range(2)))
    again = fold(once[0], history[-1], RewardSettings())

    assert once == twice
    assert again == (once[0], None)


def test_the_consumer_publishes_what_the_fold_found(act: Act) -> None:
    """The event follows from the act and survives the wire; the state survives as JSON, a repeat says nothing."""
    spec = bind(curiosity, ServiceContext(Settings(), Path()))
    assert spec.initial is not None
    assert spec.state is not None
    action = act(2, output="news")

    state, fact = spec.handle(spec.initial(), action)

    assert decode(encode(fact)) == fact
    assert (fact.causation_id, fact.new_information, fact.score.value) == (action.id, True, 0.5)
    assert spec.state.model_validate_json(state.model_dump_json()) == state
    assert spec.handle(state, action) == (state, None)
    assert spec.handle(state, _message("m1"))[1] is None

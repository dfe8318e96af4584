"""Acts for a goal: from its arrival to its being reached, open and dropped goals at their age."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.experience import ShownCheck
from conch.views.life.goal_pace import (
    FEWEST_GOALS,
    MOST_LOOKS,
    GoalSpan,
    arrivals,
    blind_rate,
    goal_pace,
    goal_spans,
    kind_of,
)

Acts = list[tuple[int, list[ShownCheck]]]


def check(goal: str, outcome: str = "neutral", *, accepted: bool = True) -> ShownCheck:
    return ShownCheck(goal, goal, outcome, 0.0, 0.0, accepted)


def life(*spans: tuple[str, int, int, bool], cycles: int) -> Acts:
    """Acts of so many cycles; each goal is open from its first to its last cycle, and may be reached in that."""
    acts: Acts = [(cycle, []) for cycle in range(cycles)]
    for goal, came, over, reached in spans:
        for cycle in range(came, over + 1):
            acts[cycle][1].append(check(goal, "achieved" if reached and cycle == over else "neutral"))
    return acts


def goals_every(acts: int, cycles: int) -> Acts:
    """One goal after the other, each reached after so many acts."""
    begins = range(0, cycles - acts + 1, acts)
    return life(*((f"count-{at}", at, at + acts - 1, True) for at in begins), cycles=cycles)


def test_a_goal_that_is_reached_at_once_takes_one_act() -> None:
    """The act that reaches it counts."""
    assert goal_spans(life(("a", 3, 3, True), cycles=5)) == [GoalSpan("a", 3, 3, True)]
    assert GoalSpan("a", 3, 3, True).acts == 1


def test_open_and_dropped_goals_count_at_their_age() -> None:
    """Over reached goals alone the mean would be 1."""
    acts = life(("reached", 0, 0, True), ("dropped", 2, 5, False), ("open", 4, 9, False), cycles=10)

    pace = goal_pace([], acts)

    assert pace is not None
    assert pace.last == pytest.approx((1 + 4 + 6) / 3)
    assert pace.last_rate == 10.0


def test_a_goal_that_is_set_again_is_another_one() -> None:
    """Its first time was over when it was reached."""
    acts = life(("flips", 0, 1, True), ("flips", 4, 6, True), cycles=8)

    assert goal_spans(acts) == [GoalSpan("flips", 0, 1, True), GoalSpan("flips", 4, 6, True)]


def test_a_goal_of_the_agents_own_counts_once_it_is_accepted() -> None:
    """Else an agent could set itself what it has done."""
    acts = [(0, [check("own", accepted=False)]), (1, [check("own")]), (2, [check("own", "achieved")])]

    assert goal_spans(acts) == [GoalSpan("own", 1, 2, True)]
    assert goal_pace([], acts[:1]) is None


def test_the_age_of_a_goal_that_came_before_the_last_acts_counts_up_to_their_number() -> None:
    """Where the last acts begin is no arrival; a goal that is stuck for ever makes no agent look ever worse."""
    acts = life(("late", 75, 85, True), ("old", 7, 99, False), cycles=100)

    pace = goal_pace(acts[:20], acts[80:], {"late": 75, "old": 7})

    assert pace is not None
    assert pace.last == (11 + 20) / 2


def test_fewer_acts_than_at_first_are_told_with_an_interval() -> None:
    """A life whose goals take 20 acts, and then 4."""
    pace = goal_pace(goals_every(20, 200), goals_every(4, 200))

    assert pace is not None
    assert pace.is_fewer
    assert (pace.first, pace.last) == (20.0, 4.0)
    assert (pace.first_rate, pace.last_rate) == (5.0, 25.0)
    told = "A goal took 20.0 acts at first and 4.0 at last; a typical one 0.20 times as many (95 %: 0.20 to 0.20)."
    assert pace.words[0].startswith(told)


def test_one_stuck_goal_does_not_hide_what_the_others_show() -> None:
    """It counts in the mean at its age; the other goals take a fifth of their acts."""
    stuck = [(cycle, [*checks, check("stuck")]) for cycle, checks in goals_every(4, 60)]

    pace = goal_pace(goals_every(20, 200), stuck)

    assert pace is not None
    assert pace.last == (15 * 4 + 60) / 16
    assert pace.is_fewer


def test_fewer_acts_of_a_typical_goal_are_no_success_where_the_mean_rose() -> None:
    """Many easy goals do not make up for one that is left: both have to fall."""
    easy = goals_every(2, 40) + [(40 + cycle, [check("stuck")]) for cycle in range(160)]

    pace = goal_pace(goals_every(9, 198), easy)

    assert pace is not None
    assert pace.high is not None
    assert pace.high < 1.0
    assert pace.last is not None
    assert pace.last > 9.0
    assert not pace.is_fewer


def test_blind_choice_reaches_what_each_kind_of_act_did() -> None:
    """Each kind as often as any other; one of fewer than three acts is left out."""
    spans = goal_spans(life(("a", 0, 3, True), ("b", 4, 7, True), cycles=11))
    kinds = {cycle: "shell" if cycle in (3, 5, 6, 7) else "read" for cycle in range(10)} | {10: "list"}

    assert blind_rate(kinds, spans) == 100 * (2 / 4 + 0 / 6) / 2
    assert blind_rate(dict.fromkeys(range(10), "read"), spans) is None


def test_of_too_few_goals_nothing_is_said() -> None:
    """Some goals are chance."""
    few = goals_every(10, 10 * (FEWEST_GOALS - 1))

    pace = goal_pace(few, goals_every(1, 50))

    assert pace is not None
    assert pace.low is None
    assert not pace.is_fewer
    assert not pace.is_more


def test_a_life_without_goals_has_no_pace() -> None:
    """There is nothing that it could be of."""
    assert goal_pace(life(cycles=50), life(cycles=50)) is None


def test_kinds_are_told_by_the_ids_of_goals() -> None:
    """Numbers at their end tell goals of one kind apart."""
    pace = goal_pace([], life(("count-1", 0, 1, True), ("count-2", 2, 5, True), ("tests", 0, 9, False), cycles=10))

    assert pace is not None
    assert [(kind.kind, kind.goals, kind.reached, kind.acts) for kind in pace.kinds] == [
        ("count", 2, 2, 3.0),
        ("tests", 1, 0, 10.0),
    ]
    assert kind_of("2026") == "2026"


@given(st.dictionaries(st.integers(0, 999).map(str), st.integers(0, 5000), max_size=12))
def test_when_goals_came_is_found_with_few_looks(came: dict[str, int]) -> None:
    """A look halves the cycles in which any of them may have come."""
    looks: list[int] = []

    def listed(cycle: int) -> frozenset[str]:
        looks.append(cycle)
        return frozenset(goal for goal, first in came.items() if first <= cycle)

    assert arrivals(came.keys(), listed, 0, 5000) == came
    assert len(looks) <= 13 * len(came)


def test_a_thousand_goals_are_looked_for_with_bounded_looks() -> None:
    """What is not found in time counts from where it was seen: never more acts than it took."""
    came = {str(number): 7 * number for number in range(1000)}
    looks: list[int] = []

    def listed(cycle: int) -> frozenset[str]:
        looks.append(cycle)
        return frozenset(goal for goal, first in came.items() if first <= cycle)

    found = arrivals(came.keys(), listed, 0, 7000)

    assert len(looks) == MOST_LOOKS
    assert found.keys() == came.keys()
    assert all(found[goal] >= came[goal] for goal in came)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=8))
def test_each_act_of_an_open_goal_is_counted_once(drawn: Sequence[tuple[int, int, bool]]) -> None:
    """The acts of all spans are the listed goals."""
    spans = [(str(number), min(one), max(one), reached) for number, (*one, reached) in enumerate(drawn)]
    acts = life(*spans, cycles=31)

    assert sum(span.acts for span in goal_spans(acts)) == sum(len(checks) for _, checks in acts)
    assert all(before <= after for before, after in pairwise(sorted(span.over for span in goal_spans(acts))))

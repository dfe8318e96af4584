"""The verdict on a life, from seeded series of each kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.experience import ShownCheck
from conch.views import Baseline, LifeEvidence, LifeVerdict, cohorts_of, life_trend, life_verdict
from conch.views.life.goal_pace import GoalPace, goal_pace
from conch.views.life.trend import STILL

seeds = st.integers(0, 10_000)


def series(cycles: int, level: Callable[[int], float], noise: float, seed: int, stays: float = 0.0) -> list[float]:
    """Totals about a level; each deviation keeps this share of the one before."""
    chance, away, made = random.Random(seed), 0.0, []
    for cycle in range(cycles):
        away = stays * away + chance.gauss(0.0, noise)
        made.append(level(cycle) + away)
    return made


def judged(totals: Sequence[float], *, habit: bool | None = None, **more: object) -> LifeVerdict:
    """The verdict on totals from cycle 0 on, as of the last one."""
    trend = life_trend(cohorts_of(range(len(totals)), totals), totals[:100])
    many = len(totals) if len(totals) >= 200 else 0
    found = LifeEvidence(len(totals), many, 0, len(totals) - 1, trend, **{"moved": 0, **more})  # type: ignore[arg-type]
    return life_verdict(found, habit=habit)


@settings(max_examples=40, deadline=None)
@given(st.integers(600, 3000), st.floats(0.35, 0.6), st.floats(0.02, 0.06), seeds)
def test_a_reward_that_still_rises_is_learning(cycles: int, rise: float, noise: float, seed: int) -> None:
    """A line up to the end, with noise about it."""
    found = judged(series(cycles, lambda at: rise * at / cycles, noise, seed))

    assert found.kind == "learning"
    assert found.headline == "Learning: the reward still rises."
    assert found.change is not None
    assert found.change.low > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(1000, 4000), st.floats(0.15, 0.45), st.floats(0.2, 0.5), st.floats(0.02, 0.08), seeds)
def test_a_rise_that_ended_has_levelled_off_where_it_ended(
    cycles: int, turn: float, rise: float, noise: float, seed: int
) -> None:
    """The cycle is that of the turn, to a tenth of the life."""
    at_turn = turn * cycles
    found = judged(series(cycles, lambda at: rise * min(1.0, at / at_turn), noise, seed))

    assert found.kind in ("levelled", "learning", "risen")  # one in a hundred looks as if it rose on by chance
    if found.kind == "levelled":
        assert found.since is not None
        assert abs(found.since - at_turn) <= 0.1 * cycles
        assert f"levelled off at cycle {found.since:,}." in found.headline


def test_of_many_lives_that_levelled_off_nearly_all_are_told_so() -> None:
    """At least 90 of 100, also where each total depends on the one before: 5 look as if they rose on by chance."""
    lives = [series(1500, lambda at: 0.3 * min(1.0, at / 300), 0.06, seed, stays=0.5) for seed in range(100)]

    assert sum(judged(life).kind == "levelled" for life in lives) >= 90


@settings(max_examples=40, deadline=None)
@given(st.integers(600, 3000), seeds)
def test_a_rise_that_ended_lately_is_not_called_over(cycles: int, seed: int) -> None:
    """In the last third of the life it is too early to say; no sentence says that it rises where its slope is not above
    0, one-sided at 95 %, as a rise that is known needs."""
    found = judged(series(cycles, lambda at: 0.4 * min(1.0, at / (0.85 * cycles)), 0.05, seed))

    assert found.kind in ("learning", "risen")
    assert found.recent is not None
    rises = found.recent.value > found.recent.away(STILL)
    assert rises or "still rises cannot be told" in found.headline


@settings(max_examples=40, deadline=None)
@given(st.integers(600, 3000), st.floats(0.35, 0.6), st.floats(0.02, 0.06), seeds)
def test_a_reward_that_goes_down_is_falling(cycles: int, fall: float, noise: float, seed: int) -> None:
    """A line down to the end."""
    assert judged(series(cycles, lambda at: -fall * at / cycles, noise, seed)).kind == "falling"


def test_a_life_that_fell_long_ago_has_fallen() -> None:
    """It does not go down any more: the sentence says so."""
    found = judged(series(2000, lambda at: 0.4 if at < 300 else 0.1, 0.05, 5))

    assert (found.kind, found.headline) == ("falling", "Fallen: worse than at first.")


def test_a_level_life_of_like_acts_is_stuck_in_a_habit() -> None:
    """Only where the diversity of its last acts is low; one that learnt before has levelled off instead."""
    level = series(900, lambda _: 0.4, 0.05, 3)
    learnt = series(900, lambda at: 0.3 * min(1.0, at / 200), 0.05, 3)

    assert judged(level, diversity=0.1).kind == "habit"
    assert judged(level, diversity=0.6).kind == "unchanged"
    assert judged(learnt, diversity=0.1).kind == "levelled"


def test_a_live_alarm_of_a_habit_wins_over_learning() -> None:
    """In the sentence; of a life that fell or has levelled off it is told behind."""
    rising = series(900, lambda at: 0.4 * at / 900, 0.05, 3)
    learnt = series(900, lambda at: 0.3 * min(1.0, at / 200), 0.05, 3)
    falling = series(900, lambda at: -0.4 * at / 900, 0.05, 3)

    assert judged(rising).kind == judged(rising, diversity=0.1).kind == "learning"
    told = judged(rising, habit=True)
    assert told.kind == "habit"
    assert told.headline == "Stuck in a habit: nearly the same act again and again, though the reward still rises."
    assert judged(learnt, habit=True).kind == "levelled"
    assert "Now nearly the same act again and again." in judged(learnt, habit=True).details
    assert judged(falling, habit=True).kind == "falling"


def test_without_its_alarm_few_kinds_of_act_are_no_habit() -> None:
    """The alarm knows how many kinds there are to choose from; the diversity counts only where it is not known."""
    level = series(900, lambda _: 0.4, 0.05, 3)

    assert judged(level, diversity=0.1).kind == "habit"
    assert judged(level, diversity=0.1, habit=False).kind == "unchanged"


@pytest.mark.parametrize("cycles", [0, 1, 199])
def test_a_short_life_has_no_verdict(cycles: int) -> None:
    """The sentence says how many cycles there are, and how many it takes."""
    found = judged([0.1] * cycles)

    assert (found.kind, found.change, found.since) == ("early", None, None)
    assert found.headline == f"Too early to say: {cycles} of 200 cycles."


@settings(max_examples=30, deadline=None)
@given(st.floats(-0.5, 0.5), seeds)
def test_a_verdict_does_not_hang_on_the_level(level: float, seed: int) -> None:
    """Totals that are all higher by a constant have the same verdict."""
    life = series(1600, lambda at: 0.3 * min(1.0, at / 300), 0.04, seed)

    assert judged([one + level for one in life]).kind == judged(life).kind


def test_a_constant_life_is_unchanged() -> None:
    """Without any noise there is nothing to divide by, and no change."""
    found = judged([0.25] * 500)

    assert found.kind == "unchanged"
    assert (
        found.details[0]
        == "Reward went from +0.25 (first 100 cycles) to +0.25 (last third): +0.00 (95 %: +0.00 to +0.00)."
    )


@pytest.mark.parametrize("level", [0.1, 0.123, 0.3, 1 / 3, 0.7])
def test_a_constant_life_neither_rises_nor_falls_in_words(level: float) -> None:
    """Whatever its sums are rounded to."""
    told = " ".join(judged([level] * 400).details)

    assert "Reward went from" in told
    assert "straight line" not in told


@pytest.mark.parametrize(("cycles", "at"), [(300, 150), (600, 300)])
def test_a_jump_is_no_noise(cycles: int, at: int) -> None:
    """A life that is better from one act on, as under a new policy, has risen."""
    found = judged(series(cycles, lambda cycle: 0.1 if cycle < at else 0.9, 0.1, 3))

    assert found.kind in {"risen", "levelled"}


@pytest.mark.parametrize("cycles", [200, 400, 1000, 5000])
@pytest.mark.parametrize("last", [1.0, -1.0])
def test_one_act_at_the_end_of_equal_ones_is_no_trend(cycles: int, last: float) -> None:
    """Neither a rise nor a fall: one batch of neighbours is moved by one act."""
    assert judged([0.2] * (cycles - 1) + [last]).kind == "unchanged"


def test_the_sentences_name_baseline_and_goals() -> None:
    """What the end is compared with, and how many acts moved a goal."""
    life = series(1500, lambda at: 0.3 * min(1.0, at / 200), 0.04, 1)

    told = judged(life, baseline=Baseline("choosing blindly", 0.1), moved=27).details
    below = judged(life, baseline=Baseline("its first policy", 0.5)).details

    assert told[-2:] == ("The last third is above choosing blindly (+0.10).", "27 of 1,500 acts moved a goal.")
    assert below[-2:] == ("The last third is below its first policy (+0.50).", "None of 1,500 acts moved a goal.")
    assert "fast" in judged(life).headline


def test_no_sentence_denies_the_interval_beside_it() -> None:
    """Where an interval that is shown leaves 0 out, at 95 %, the sentence does not say that nothing changed."""
    weak = 0
    for seed in range(60):
        found = judged(series(400, lambda at: 0.00018 * at, 0.2, seed))
        if found.kind == "unchanged" and found.change is not None and found.change.low > 0.0:
            weak += 1
            assert found.headline.startswith("Perhaps")

    assert weak


def test_a_page_says_when_it_is_judged_again() -> None:
    """Where acts have come since the last checkpoint, by cycles, whatever was removed; a range is judged whole."""
    life = series(242, lambda _: 0.4, 0.05, 1)
    trend = life_trend(cohorts_of(range(242), life), life[:100])

    told = life_verdict(LifeEvidence(260, 242, 0, 241, trend, since=18)).details
    removed = life_verdict(LifeEvidence(5260, 242, 5000, 5241, trend, since=18)).details
    of_range = life_verdict(LifeEvidence(260, 242, 0, 241, trend)).details

    assert told[-1] == "Judged up to cycle 241, anew at cycle 266."
    assert removed[-1] == "Judged up to cycle 5,241, anew at cycle 5,266."
    assert of_range == told[:-1]


def test_changed_weights_are_said() -> None:
    """With what had to be left out."""
    life = series(300, lambda _: 0.4, 0.05, 1)

    said = judged(life, weighed_anew=True).details[-1]
    assert said == "The weights changed: these totals are under those in force, not as they were paid."
    left_out = judged(life, weighed_anew=True, left_out=("joy", "kind")).details[-1]
    assert left_out.endswith("not as they were paid, without joy and kind, not scored throughout.")


def pace(first: int, last: int) -> GoalPace:
    """The pace of a life whose goals took so many acts at first, and so many at last."""
    found = goal_pace(
        *([(at, [check_of(at // acts, ends=at % acts == acts - 1)]) for at in range(200)] for acts in (first, last))
    )
    assert found is not None
    return found


def check_of(goal: int, *, ends: bool) -> ShownCheck:
    return ShownCheck(f"count-{goal}", "", "achieved" if ends else "neutral", 0.0, 0.0)


def level_life(cycles: int = 400) -> list[float]:
    return series(cycles, lambda _: 0.2, 0.05, 1)


def test_goals_in_fewer_acts_are_the_first_sentence_whatever_the_reward_does() -> None:
    """What it does for its goals is the purpose; the reward stands behind it."""
    found = judged(level_life(), pace=pace(20, 5))

    assert found.kind == "fewer"
    assert found.headline == "Goals in fewer acts than at first: 5.0 instead of 20.0."
    assert found.details[1] == "Goals reached in 100 acts: 5.0 at first, 20.0 at last."
    assert found.details[2] == "Reward: No change so far that is more than chance."
    assert found.moves == "unchanged"


def test_a_rising_reward_is_no_learning_where_goals_take_as_many_acts() -> None:
    """Filler is paid too."""
    found = judged(series(1000, lambda at: 0.5 * at / 1000, 0.03, 1), pace=pace(10, 10))

    assert found.kind == "steady"
    assert found.headline == "Goals take about as many acts as at first: no change that is more than chance."
    assert found.moves == "learning"


def test_goals_that_take_more_acts_are_told() -> None:
    """Whatever it is paid."""
    assert judged(level_life(), pace=pace(5, 20)).kind == "more"


def test_a_habit_is_told_unless_goals_take_fewer_acts() -> None:
    """Nearly the same act again and again may be the right one."""
    assert judged(level_life(), habit=True, pace=pace(10, 10)).kind == "habit"
    reaches = judged(level_life(), habit=True, pace=pace(20, 5))
    assert reaches.kind == "fewer"


def test_of_too_few_goals_the_reward_tells() -> None:
    """The acts for a goal stand first all the same."""
    found = judged(level_life(), pace=pace(80, 70))

    assert found.kind == "unchanged"
    assert found.details[0].startswith("A goal took")

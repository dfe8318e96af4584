"""The statistics of a life: intervals of totals that resemble their neighbours, and what is found by them in simulated
lives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from conch.views import (
    LifeEvidence,
    LifeVerdict,
    checkpoint,
    cohorts_of,
    difference_interval,
    life_trend,
    life_verdict,
    mean_interval,
    next_checkpoint,
    slope_interval,
    student,
)

Lives = NDArray[np.float64]
SPREAD = 0.3
"""Standard deviation of a total about its level."""


def level_lives(count: int, cycles: int, likeness: float, seed: int = 1) -> Lives:
    """[life, cycle]: level series, each total with so much of the deviation before it."""
    noise = np.random.default_rng(seed).standard_normal((cycles, count))
    away = np.empty_like(noise)
    away[0] = noise[0]
    for at in range(1, cycles):
        away[at] = likeness * away[at - 1] + (1.0 - likeness**2) ** 0.5 * noise[at]
    found: Lives = SPREAD * away.T
    return found


def judged(life: NDArray[np.float64]) -> LifeVerdict:
    """The verdict on a life at its last checkpoint."""
    upto = checkpoint(len(life))
    totals = life[:upto].tolist()
    trend = life_trend(cohorts_of(range(upto), totals), totals[:100])
    return life_verdict(LifeEvidence(len(life), upto, 0, upto - 1, trend))


@pytest.mark.parametrize("likeness", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("cycles", [200, 500, 1500, 5000])
def test_of_level_lives_hardly_any_is_told_to_learn_or_to_fall(cycles: int, likeness: float) -> None:
    """At most 2 of 100 looks, however much neighbouring totals are alike; of any change at most 4."""
    kinds = Counter(judged(life).kind for life in level_lives(250, cycles, likeness))

    assert kinds["learning"] + kinds["falling"] <= 5
    assert kinds["unchanged"] >= 240


@pytest.mark.parametrize(("cycles", "likeness"), [(1000, 0.0), (1500, 0.5)])
def test_a_rise_of_a_tenth_in_500_acts_is_found(cycles: int, likeness: float) -> None:
    """In 9 of 10 lives, with a standard deviation of 0.3: by 1,000 acts, and where neighbours are alike by 1,500."""
    rise = 0.1 * np.arange(cycles) / 500
    kinds = Counter(judged(life + rise).kind for life in level_lives(100, cycles, likeness))

    assert kinds["learning"] + kinds["risen"] + kinds["levelled"] >= 90


def test_a_life_that_is_looked_at_again_and_again_keeps_its_sentence() -> None:
    """Over all looks at level lives of up to 2,000 acts, one after each act from 200 on, the sentence changes twice a
    life at most on average, and says learning or falling in at most 2 of 100."""
    wrong = looks = changes = 0
    for life in level_lives(40, 2000, 0.5, seed=3):
        said = ""
        at = 200
        while at <= len(life):
            behind = min(next_checkpoint(at), len(life) + 1)
            found = judged(life[:at])
            looks += behind - at
            wrong += (behind - at) * (found.kind in ("learning", "falling"))
            changes += said not in ("", found.headline)
            said, at = found.headline, behind

    assert wrong <= 0.02 * looks
    assert changes <= 80


@given(st.integers(0, 10**7))
def test_a_checkpoint_is_the_last_one_that_was_reached(cycles: int) -> None:
    """It is at most a tenth of the checkpoint behind."""
    found = checkpoint(cycles)

    assert found == 0 if cycles < 200 else found <= cycles < next_checkpoint(found)


@pytest.mark.parametrize(
    ("free", "expected"), [(3, 3.182), (5, 2.571), (10, 2.228), (16, 2.120), (30, 2.042), (float("inf"), 1.960)]
)
def test_students_quantiles_are_those_of_the_tables(free: float, expected: float) -> None:
    """At 97.5 %."""
    assert student(1.96, free) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("likeness", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("count", [40, 200, 1000])
def test_an_interval_holds_the_true_value_as_often_as_it_says(count: int, likeness: float) -> None:
    """Of means, differences and slopes: 95 % of the time; of few values that are much alike at least 85 %."""
    lives, others = level_lives(200, count, likeness), level_lives(200, count, likeness, seed=2)
    least = 170 if count < 200 and likeness > 0.5 else 180

    means = [mean_interval(life.tolist()) for life in lives]
    differences = [difference_interval(a.tolist(), b.tolist()) for a, b in zip(lives, others, strict=True)]
    slopes = [slope_interval(list(range(count)), life.tolist()) for life in lives]

    for found in (means, differences, slopes):
        assert sum(one is not None and one.low <= 0.0 <= one.high for one in found) >= least


@settings(deadline=None)
@given(st.lists(st.floats(-2, 1), min_size=2, max_size=60), st.floats(-1, 1))
def test_an_interval_moves_with_its_values(values: list[float], by: float) -> None:
    """It holds the mean, and a constant that is added to each value moves it alone."""
    found, moved = mean_interval(values), mean_interval([one + by for one in values])

    assert found.low <= found.value <= found.high
    assert moved.value == pytest.approx(found.value + by, abs=1e-9)
    assert moved.error == pytest.approx(found.error, abs=1e-6)

"""How far two scorers agree: whatever they said, in figures that are numbers or in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.rewards.agreement import agreement, ranks, spearman

FINITE = st.floats(allow_nan=False, allow_infinity=False)
FEW = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0])
"""Values among which there are ties."""


def by_definition(first: list[float], second: list[float]) -> float:
    """Spearman's, from Pearson's formula over ranks that are counted one by one."""

    def ranked(values: list[float]) -> list[float]:
        return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]

    one, other = ranked(first), ranked(second)
    n, mean = len(one), (len(one) + 1) / 2
    covariance = math.fsum((one[i] - mean) * (other[i] - mean) for i in range(n))
    spread = [math.fsum((x - mean) ** 2 for x in each) for each in (one, other)]
    return covariance / math.sqrt(spread[0] * spread[1])


@given(st.lists(st.tuples(FEW, FEW), min_size=3, max_size=40))
def test_the_rank_correlation_is_that_of_the_definition(pairs: list[tuple[float, float]]) -> None:
    """Ties share their mean rank; where one of the two does not vary it is said, never NaN."""
    first, second = [one for one, _ in pairs], [other for _, other in pairs]

    found = agreement(first, second, 2.0)

    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found.rank_correlation is None
        assert "every act alike" in found.why_none
    else:
        assert found.rank_correlation == pytest.approx(by_definition(first, second))
        assert found.why_none == ""


@given(st.lists(st.tuples(FINITE, FINITE), max_size=30), st.floats(min_value=1e-9, max_value=1e9))
def test_no_figure_is_ever_nan(pairs: list[tuple[float, float]], widest: float) -> None:
    """Shares lie in 0..1, the correlation in −1..1; what has no value is None, and has a reason."""
    found = agreement([one for one, _ in pairs], [other for _, other in pairs], widest)

    assert found.count == len(pairs)
    assert (found.equal is None) == (found.same_sign is None) == (not pairs)
    for share in (found.equal, found.same_sign):
        assert share is None or 0.0 <= share <= 1.0
    assert found.mean_difference is None or math.isfinite(found.mean_difference)
    assert found.rank_correlation is None or -1.0 <= found.rank_correlation <= 1.0
    assert (found.rank_correlation is None) == bool(found.why_none)


@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=30, unique=True))
def test_only_the_order_counts(values: list[int]) -> None:
    """Any rising function of the same scores agrees wholly, any falling one not at all."""
    first = [float(value) for value in values]

    assert agreement(first, [value**3 for value in first], 1.0).rank_correlation == pytest.approx(1.0)
    assert agreement(first, [-value for value in first], 1.0).rank_correlation == pytest.approx(-1.0)


def test_equal_is_within_a_twentieth_of_the_wider_range() -> None:
    """And the signs are of three kinds: above, below, at 0; the mean difference is second less first."""
    found = agreement([0.0, 0.5, -0.5, 0.2], [0.1, 0.5, -0.65, 0.1], 2.0)

    assert found.equal == 0.75
    assert found.same_sign == 0.75
    assert found.mean_difference == pytest.approx(-0.0375)


def test_too_few_are_said() -> None:
    """Of none there is nothing; of two no rank correlation."""
    assert agreement([], [], 1.0).why_none == "no act was scored by both"
    assert agreement([0.1, 0.2], [0.1, 0.2], 1.0).rank_correlation is None
    with pytest.raises(ValueError, match="2 scores beside 1"):
        agreement([0.1, 0.2], [0.1], 1.0)


@given(st.lists(FEW, min_size=1, max_size=30))
def test_ranks_sum_to_what_they_must(values: list[float]) -> None:
    """Whatever the ties: 1 + 2 + … + n."""
    import numpy as np

    assert ranks(np.array(values)).sum() == pytest.approx(len(values) * (len(values) + 1) / 2)
    assert spearman(np.array(values), np.array(values))[0] in (None, pytest.approx(1.0))

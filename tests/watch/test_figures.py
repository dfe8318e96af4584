"""The watched figures against numpy's, or against the definition by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.rewards.watch.figures import deviations, mean, rank_shift, share_error, spread, variance_shares

values = st.floats(-2.0, 2.0).map(lambda value: round(value, 6))
series = st.lists(values, min_size=2, max_size=60)
columns = st.integers(2, 40).flatmap(
    lambda length: st.lists(st.lists(values, min_size=length, max_size=length), min_size=1, max_size=6)
)


@given(series)
def test_mean_and_spread_are_numpys(values: list[float]) -> None:
    """Over all n values, not n − 1."""
    assert mean(values) == pytest.approx(np.mean(values), abs=1e-12)
    assert spread(values) == pytest.approx(np.std(values), abs=1e-9)


@given(columns)
def test_a_share_is_the_covariance_with_the_total(columns: list[list[float]]) -> None:
    """Cov(part, total) ÷ Var(total), as numpy's covariance matrix has it."""
    total = np.sum(columns, axis=0)
    parts = {str(place): column for place, column in enumerate(columns)}

    shares = variance_shares(parts, [float(value) for value in total])

    if np.var(total) > 1e-9:
        for name, column in parts.items():
            expected = np.cov(column, total, bias=True)[0, 1] / np.var(total)
            assert shares[name] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(columns)
def test_the_shares_of_a_sum_add_up_to_one(columns: list[list[float]]) -> None:
    """Whatever the parts have to do with each other; some may lie below 0, and others above 1."""
    total = [math.fsum(values) for values in zip(*columns, strict=True)]

    shares = variance_shares({str(place): column for place, column in enumerate(columns)}, total)

    if spread(total) > 1e-4:
        assert sum(shares.values()) == pytest.approx(1.0)


@given(st.lists(st.tuples(values, values), min_size=3, max_size=30))
def test_the_error_of_a_share_is_the_jackknifes(rows: list[tuple[float, float]]) -> None:
    """Each act left out in turn, and the share of the part computed anew; one that alone varies proves nothing."""
    part, total = [own for own, _ in rows], [own + other for own, other in rows]
    if spread(total) < 1e-3:
        return
    left = []
    for out in range(len(rows)):
        some, whole = np.delete(part, out), np.delete(total, out)
        if np.var(whole) < 1e-9 * np.var(total):
            assert share_error(part, total) == math.inf
            return
        left.append(np.cov(some, whole, bias=True)[0, 1] / np.var(whole))

    assert share_error(part, total) == pytest.approx(math.sqrt(len(rows) - 1) * np.std(left), rel=1e-3, abs=1e-6)


def test_a_total_that_never_changes_has_no_shares() -> None:
    """There is no variance to make up, also where floats do not add up exactly."""
    assert variance_shares({"format": [0.1, 0.2, 0.1]}, [0.1] * 3) == {}


@given(series, series)
def test_the_rank_test_is_that_of_mann_and_whitney(recent: list[float], earlier: list[float]) -> None:
    """U counted pair by pair, its variance from the ranks themselves."""
    u = sum((one > other) + 0.5 * (one == other) for one in recent for other in earlier)
    both = np.array([*recent, *earlier])
    ranks = np.array([np.sum(both < value) + (np.sum(both == value) + 1) / 2 for value in both])
    n, m = len(recent), len(earlier)
    varies = n * m * np.var(ranks, ddof=1) / (n + m)

    expected = (u - n * m / 2) / math.sqrt(varies) if varies > 0 else 0.0

    assert rank_shift(recent, earlier) == pytest.approx(expected, abs=1e-9)


@given(series, series)
def test_the_rank_test_has_two_sides(recent: list[float], earlier: list[float]) -> None:
    """What is greater one way is as much smaller the other way; and no more than so few values can show."""
    shift = rank_shift(recent, earlier)

    assert shift == pytest.approx(-rank_shift(earlier, recent))
    assert abs(shift) <= math.sqrt(len(recent) + len(earlier) - 1) + 1e-9


@given(series)
def test_deviations_are_from_the_median(values: list[float]) -> None:
    """Absolute, one for each value."""
    assert deviations(values) == pytest.approx(list(np.abs(np.array(values) - np.median(values))))

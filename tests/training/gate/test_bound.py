"""The bound of a mean, and what a lineage's gates may spend."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.training.gate import lower_bound, needed, spent_alpha

DIFFERENCES = st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=40)
ALPHAS = st.sampled_from([0.05, 0.03, 1e-3, 1e-5])


@pytest.mark.parametrize("alpha", [0.03, 0.001])
def test_the_bound_is_that_of_a_resampled_mean(alpha: float) -> None:
    """As 100,000 resamples of 200 values with ties have it, within a tenth of a standard error."""
    drawn = np.random.default_rng(0)
    values = np.where(drawn.random(200) < 0.6, 0.0, drawn.choice([-0.5, 0.3, 0.8], 200))
    means = np.concatenate([drawn.choice(values, (10_000, 200)).mean(axis=1) for _ in range(10)])

    found = lower_bound(list(values), alpha)

    assert found == pytest.approx(np.quantile(means, alpha), abs=0.1 * values.std() / 200**0.5)


@given(DIFFERENCES, ALPHAS, st.randoms())
def test_the_bound_does_not_depend_on_the_order(values: list[float], alpha: float, order: random.Random) -> None:
    """The same values give the same bound, to the last digit."""
    shuffled = values.copy()
    order.shuffle(shuffled)

    assert lower_bound(shuffled, alpha) == lower_bound(values, alpha)


@given(DIFFERENCES, ALPHAS, st.data())
def test_the_bound_never_falls_where_a_value_rises(values: list[float], alpha: float, data: st.DataObject) -> None:
    """An outlier to the good side does not widen the bound beyond what it adds."""
    rises = data.draw(st.lists(st.floats(0.0, 2.0), min_size=len(values), max_size=len(values)))
    higher = [value + rise for value, rise in zip(values, rises, strict=True)]

    assert lower_bound(higher, alpha) >= lower_bound(values, alpha) - 1e-9


@given(DIFFERENCES, ALPHAS)
def test_the_bound_lies_between_the_least_value_and_the_mean(values: list[float], alpha: float) -> None:
    """Of values that are all alike it is that value."""
    bound = lower_bound(values, alpha)

    assert min(values) - 1e-9 <= bound <= sum(values) / len(values) + 1e-9


def test_all_gates_of_a_lineage_spend_its_error_rate_and_no_more() -> None:
    """However many there are, later ones less; there is no gate before the first."""
    spent = [spent_alpha(0.05, number) for number in range(1, 5000)]

    assert spent == sorted(spent, reverse=True)
    assert 0.0499 < sum(spent) < 0.05
    with pytest.raises(ValueError, match="numbered from 1"):
        spent_alpha(0.05, 0)


def test_the_number_of_states_that_would_show_a_difference() -> None:
    """A difference of 0.05 above the margin at sd 0.4 needs some 400 states; one below the margin cannot be shown."""
    values = [0.05 + 0.4 * sign for sign in (-1, 1)]

    assert needed(values, 0.0, 0.05) == pytest.approx(396, abs=1)
    assert needed(values, 0.06, 0.05) is None

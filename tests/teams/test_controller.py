"""The controller: its choice, what it learns and when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.teams import (
    ControllerSetup,
    ControllerState,
    CoordinatorState,
    decided,
    empty_model,
    epsilon,
    feature_vector,
    objection,
    predicted,
    stepped,
    switched,
    updated,
    window_shares,
    with_decision,
    with_reward,
)

X = (1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.0, 1.0)


@given(st.lists(st.tuples(st.lists(st.floats(0, 1), min_size=8, max_size=8), st.floats(-2, 2)), max_size=30))
def test_the_regression_is_that_of_the_normal_equations(updates: list[tuple[list[float], float]]) -> None:
    """The prediction is xᵀ(λI + Σxxᵀ)⁻¹Σrx, as linear algebra of double precision gives it."""
    model, a, b = empty_model(), 0.01 * np.eye(8), np.zeros(8)
    for x, reward in updates:
        model = updated(model, x, reward)
        a, b = a + np.outer(x, x), b + reward * np.array(x)

    assert predicted(model, X) == pytest.approx(float(np.array(X) @ np.linalg.solve(a, b)), abs=1e-6)


def test_a_reward_is_learnt_once_however_late_it_comes() -> None:
    """After a hundred other decisions it changes the model; a second time, and of an unknown decision, nothing."""
    state = ControllerState()
    for number in range(100):
        state = with_decision(state, f"d{number}", X, "flat")
    late = with_reward(state, "d0", 1.0)

    assert late.rewards == 1
    assert predicted(late.models[3], X) > 0.9
    assert with_reward(late, "d0", 5.0) == late
    assert with_reward(late, "other", 5.0) == late
    assert with_reward(late, "d1", float("nan")) == late


def test_a_frozen_controller_chooses_by_what_was_learnt_and_learns_nothing() -> None:
    """It takes the best action every time, and its models stay."""
    state = with_reward(with_decision(ControllerState(), "d", X, "chain"), "d", 1.0)
    state = with_decision(state, "e", X, "chain")
    after = with_reward(state, "e", -5.0, learns=False)

    assert after.models == state.models
    assert after.pending == {}
    choices = set()
    for number in range(50):
        choices.add(decided(after, X, ControllerSetup("frozen")).action)
        after = with_decision(after, f"f{number}", X, "chain")
    assert choices == {"chain"}


def test_a_fixed_controller_stays_and_a_random_one_draws_all_four() -> None:
    """Forty decisions of each: one choice, and each of the four."""
    state, drawn = ControllerState(), set()
    for number in range(40):
        assert decided(state, X, ControllerSetup("fixed")).action == "stay"
        drawn.add(decided(state, X, ControllerSetup("random")).action)
        state = with_decision(state, f"d{number}", X, "stay")

    assert drawn == {"stay", "star", "chain", "flat"}


def test_a_decision_that_is_made_again_is_the_same() -> None:
    """The draw belongs to the seed and the number of the decision."""
    setup = ControllerSetup(seed=7)

    assert decided(ControllerState(), X, setup) == decided(ControllerState(), X, setup)


@given(st.integers(0, 20_000))
def test_epsilon_falls_and_stays_within_its_ends(decisions: int) -> None:
    """0.20 at first, 0.05 from 5,000 decisions on, never rising."""
    assert 0.05 <= epsilon(decisions + 1) <= epsilon(decisions) <= 0.20


@given(
    st.text(max_size=8),
    st.integers(0, 100),
    st.lists(st.sampled_from(["planner", "coder", "runner", "critic", "x"])),
    st.integers(0, 10**9),
    st.integers(0, 10**6),
    st.integers(0, 5),
)
def test_the_features_lie_between_0_and_1(
    topology: str, since: int, senders: list[str], used: int, budget: int, dwell: int
) -> None:
    """Eight numbers, whatever comes in; the shares sum to 1 or 0."""
    x = feature_vector(topology, since, senders, used, budget, dwell=dwell)

    assert len(x) == 8
    assert all(0.0 <= one <= 1.0 for one in x)
    assert sum(x[4:7]) == pytest.approx(0.0) or sum(x[4:7]) == pytest.approx(1.0)


def test_the_window_has_the_last_steps_and_the_step_in_progress() -> None:
    """Of two steps and a window of one the older one does not count; the messages of now do."""
    assert window_shares([["planner"], ["coder"]], ["critic"], window=1) == (0.0, 0.5, 0.5)


def test_a_switch_is_refused_in_the_order_of_the_reasons() -> None:
    """Unknown before busy, busy before same, cooldown before dwell."""
    fresh, after = CoordinatorState(), switched()

    assert objection(fresh, "star", "ring", is_prepared=True) == "unknown"
    assert objection(fresh, "star", "star", is_prepared=True) == "busy"
    assert objection(fresh, "star", "star") == "same"
    assert objection(fresh, "star", "flat") == "dwell"
    assert objection(after, "star", "flat") == "cooldown"
    assert objection(stepped(stepped(after)), "star", "flat") is None

"""Walks, policy traces and the value agent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.witness import (
    PolicyTrace,
    TraceStep,
    ValueAgent,
    chain_value,
    new_walk,
    next_phase,
    status_after,
    trace_total,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
CALLS = st.sampled_from(["pause", "resume", "complete", "abandon"])


@given(calls=st.lists(CALLS), later=st.lists(CALLS))
def test_a_closed_walk_takes_no_call(calls: list[str], later: list[str]) -> None:
    """Once complete or abandoned it stays so, whatever comes."""
    for end in ("complete", "abandon"):
        closed = status_after("active", [*calls, end])

        assert closed in ("complete", "abandoned")
        assert status_after(closed, later) == closed


def test_a_call_that_is_refused_changes_nothing() -> None:
    """Only an active walk is paused, and only a paused one resumed."""
    assert status_after("active", ["resume"]) == "active"
    assert status_after("paused", ["pause", "resume"]) == "active"
    assert status_after("active", ["pause", "dance"]) == "paused"


@given(calls=st.lists(st.tuples(CALLS, st.integers(0, 5))), beyond=st.integers(1, 50))
def test_a_walk_takes_the_marks_that_are_sealed_while_it_is_active(calls: list[tuple[str, int]], beyond: int) -> None:
    """Mark by mark against the status of that moment; a closed or paused walk takes none."""
    walk, place, takes = new_walk("w", "echo", "g", 3, NOON), 3, set()
    for call, marks in calls:
        if walk.status == "active":
            takes |= set(range(place, place + marks))
        place += marks
        walk = walk.called(call, place, NOON) or walk  # type: ignore[arg-type]
    if walk.status == "active":
        takes |= set(range(place, place + beyond))

    assert {sequence for sequence in range(place + beyond) if walk.takes(sequence)} == takes


def test_sense_act_reflect_and_sense_again() -> None:
    """The three phases make a round."""
    assert [next_phase("sense"), next_phase("act"), next_phase("reflect")] == ["act", "reflect", "sense"]


@given(rewards=st.lists(st.floats(-10, 10), max_size=30), gamma=st.floats(0, 1), terminal=st.floats(-10, 10))
def test_the_value_of_a_chain_is_the_total_of_its_trace(rewards: list[float], gamma: float, terminal: float) -> None:
    """Value iteration over a forced chain comes to Σ gamma^i · reward, with the terminal value behind it."""
    steps = tuple(TraceStep("s", "a", reward) for reward in rewards)
    expected = PolicyTrace(steps, gamma).total + gamma ** len(rewards) * terminal

    assert chain_value(rewards, gamma, terminal) == pytest.approx(expected, abs=1e-9)


@given(
    rewards=st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=6),
    jumps=st.lists(st.integers(0, 5), min_size=12, max_size=12),
    gamma=st.floats(0, 0.95),
)
def test_values_are_a_fixed_point(rewards: list[tuple[float, float]], jumps: list[int], gamma: float) -> None:
    """One more sweep changes no value, and the policy takes an action that reaches it."""
    count = len(rewards)
    agent = ValueAgent(
        states=range(count),
        actions=lambda state: (0, 1),
        transition=lambda state, action: jumps[2 * state + action] % count,
        reward=lambda state, action: rewards[state][action],
        gamma=gamma,
    )

    values, policy = agent.values(), agent.policy()

    for state in range(count):
        told = [rewards[state][one] + gamma * values[jumps[2 * state + one] % count] for one in (0, 1)]
        assert values[state] == pytest.approx(max(told), abs=1e-12)
        assert told[policy[state]] == pytest.approx(max(told), abs=1e-12)


def test_a_rewarding_cycle_without_discount_has_no_values() -> None:
    """Its values grow for ever: that is said instead of a number."""
    agent = ValueAgent(
        states=[0], actions=lambda _: ["stay"], transition=lambda s, _: s, reward=lambda *_: 1.0, gamma=1.0
    )

    with pytest.raises(ValueError, match="no fixed point"):
        agent.values()


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_a_discount_lies_between_nothing_and_all(gamma: float) -> None:
    """Any other number is refused."""
    with pytest.raises(ValueError, match="a discount lies in"):
        trace_total([1.0], gamma)

"""The step reward: what one step of an episode pays."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.rewards.progress import (
    PHASES,
    ROLES,
    phase_advanced,
    rewarded_advances,
    role_share_phase_change,
    step_reward,
)

HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.text(),
    st.floats(),
    st.integers(),
    st.just(10**400),
    st.lists(st.integers()),
    st.just({}),
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "phase": HOSTILE | st.sampled_from(PHASES),
        "roles": HOSTILE | st.dictionaries(st.sampled_from(ROLES), HOSTILE),
        "test_pass_rate": HOSTILE,
        "tokens_used": HOSTILE,
        "switch_committed": HOSTILE,
    },
)


@given(
    st.sampled_from(PHASES),
    st.sampled_from(PHASES),
    *[st.floats(0, 1)] * 2,
    *[st.integers(0, 10**6)] * 2,
    st.booleans(),
)
def test_a_step_pays_what_moved(
    was: str, phase: str, rate_before: float, rate: float, tokens_before: int, tokens: int, switch: bool
) -> None:
    """0.3 for a phase forward, 0.7 of the tests, less 0.0001 a token and 0.05 a switch; backwards costs as much."""
    prev = {"phase": was, "test_pass_rate": rate_before, "tokens_used": tokens_before, "switch_committed": not switch}
    curr = {"phase": phase, "test_pass_rate": rate, "tokens_used": tokens, "switch_committed": switch}
    forward = PHASES.index(phase) > PHASES.index(was)

    expected = 0.3 * forward + 0.7 * (rate - rate_before) - 0.0001 * (tokens - tokens_before) - 0.05 * switch
    assert step_reward(prev, curr) == pytest.approx(expected, abs=1e-9)


@given(STATES, STATES)
def test_whatever_a_state_holds_a_step_is_a_number(prev: dict[str, Any], curr: dict[str, Any]) -> None:
    """What is no number where one belongs counts as 0; nothing raises, and standing still pays nothing."""
    assert math.isfinite(step_reward(prev, curr))
    still = curr | {"switch_committed": False}
    assert step_reward(still, still) == 0.0


@given(st.lists(st.sampled_from([*PHASES, "", "PLANNING", None, 3]), max_size=12))
def test_only_named_phases_forward_pay(phases: list[Any]) -> None:
    """Each step from a named phase to a later one is one advance, whatever its length."""
    rank = {phase: place for place, phase in enumerate(PHASES)}
    pays = [b in rank and a in rank and rank[b] > rank[a] for a, b in pairwise(phases)]

    assert rewarded_advances(phases) == sum(pays)
    assert [phase_advanced(a, b) for a, b in pairwise(phases)] == pays


@pytest.mark.parametrize(
    ("prev", "curr", "pays"),
    [
        ({"planner": 0.6, "coder_runner": 0.4}, {"planner": 0.4, "coder_runner": 0.6}, True),
        ({"coder_runner": 1.0}, {"critic": 1.0}, True),
        ({"critic": 1.0}, {"planner": 1.0}, True),
        ({"planner": 1.0}, {"critic": 1.0}, False),
        ({"critic": 1.0}, {"coder_runner": 1.0}, False),
        ({"planner": 0.5, "coder_runner": 0.5}, {"coder_runner": 0.5, "critic": 0.5}, True),  # of equals the first
        ({"planner": "all", "critic": math.nan}, {"coder_runner": 0.1}, True),
        ({}, {"coder_runner": 1.0}, False),
        ({"critic": 1.0}, {}, False),
        (None, {"coder_runner": 1.0}, False),
        ({"critic": 1.0}, None, False),
    ],
)
def test_the_dominant_role_tells_where_no_phase_is_named(prev: Any, curr: Any, pays: bool) -> None:
    """Along planner, coder_runner, critic and round again; a named phase on either side silences the roles, and a table
    that is absent or empty is no change."""
    assert role_share_phase_change(prev, curr) is pays
    assert step_reward({"roles": prev}, {"roles": curr}) == (0.3 if pays else 0.0)
    assert step_reward({"roles": prev, "phase": "coding"}, {"roles": curr}) == 0.0

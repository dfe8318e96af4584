"""Progress of a task episode, from one state to the next. Pure functions of values.

A state is a table: `phase`, `roles` (shares of the messages by role), `test_pass_rate` (0..1), `tokens_used` (since the
episode began), `switch_committed` (of a topology, in the step that led to the state). The input is not trusted: a value
that is missing, or is not a finite number where one belongs, counts as 0, and nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

PHASES: Final = ("planning", "coding", "testing", "critique", "done")
"""In order. A step forward, of any length, is rewarded; also when it was taken before and undone."""
ROLES: Final = ("planner", "coder_runner", "critic")
ADVANCE, PASS_RATE, TOKEN, SWITCH = 0.3, 0.7, -0.0001, -0.05
"""Reward of a phase forward, of the whole test rate, of one token, and of a committed switch."""
FINAL_BONUS: Final = 1.0
LARGEST: Final = 1e18
"""Larger numbers cannot be token counts: they count as 0."""

_PAID_CHANGES: Final = frozenset({("planner", "coder_runner"), ("coder_runner", "critic"), ("critic", "planner")})


class ProgressStep(NamedTuple):
    """The changes in one step, and their reward."""

    delta_pass_rate: float
    delta_tokens: float
    phase_advance: bool
    switch_committed: bool
    value: float
    """0.3 [phase forward] + 0.7 Δ pass rate − 0.0001 Δ tokens − 0.05 [switch]; no clamp: a falling rate costs."""


def step(prev: Mapping[str, object], curr: Mapping[str, object]) -> ProgressStep:
    """The step from `prev` to `curr`. If neither names a phase, the dominant role decides whether it moved forward."""
    rate = _number(curr.get("test_pass_rate")) - _number(prev.get("test_pass_rate"))
    tokens = _number(curr.get("tokens_used")) - _number(prev.get("tokens_used"))
    advance, switch = _advanced(prev, curr), curr.get("switch_committed") is True
    value = math.fsum((ADVANCE * advance, PASS_RATE * rate, TOKEN * tokens, SWITCH * switch))
    return ProgressStep(rate, tokens, advance, switch, value + 0.0)


def step_reward(prev: Mapping[str, object], curr: Mapping[str, object]) -> float:
    """The reward of the step from `prev` to `curr`."""
    return step(prev, curr).value


def phase_advanced(prev: object, curr: object) -> bool:
    """Whether the phase moved forward; false for the same, an earlier, an unknown or a missing phase."""
    if not (isinstance(prev, str) and isinstance(curr, str) and prev in PHASES and curr in PHASES):
        return False
    return PHASES.index(prev) < PHASES.index(curr)


def rewarded_advances(phases: Sequence[object]) -> int:
    """The number of rewarded steps in a sequence of phases."""
    return sum(phase_advanced(prev, curr) for prev, curr in pairwise(phases))


def role_share_phase_change(prev: object, curr: object) -> bool:
    """Whether the dominant role (the largest share, of equals the first) went from planner to coder_runner, from
    coder_runner to critic, or from critic to planner. A share that is missing is 0; a table that is absent or empty, on
    either side, is no change."""
    if not (isinstance(prev, Mapping) and prev and isinstance(curr, Mapping) and curr):
        return False
    return (_dominant(prev), _dominant(curr)) in _PAID_CHANGES


def final_bonus(all_passed: bool) -> float:
    """Reward of the event that ends the episode: 1.0 if all tests pass, else 0.0."""
    return FINAL_BONUS if all_passed else 0.0


def _advanced(prev: Mapping[str, object], curr: Mapping[str, object]) -> bool:
    if prev.get("phase") or curr.get("phase"):
        return phase_advanced(prev.get("phase"), curr.get("phase"))
    return role_share_phase_change(prev.get("roles"), curr.get("roles"))


def _dominant(shares: Mapping[object, object]) -> str:
    return max(ROLES, key=lambda role: _number(shares.get(role)))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if abs(number) <= LARGEST else 0.0

"""The learning curve: the totals of an agent by the policy that acted, and their slope. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

SLOPE_OVER: Final = 200
"""Cycles that the learning progress is taken over."""
FEWEST: Final = 20
"""Cycles that a slope needs."""
WINDOW: Final = 25
"""Cycles of a moving mean."""
SURE: Final = 1.96
"""Standard errors to each side of a 95 % interval."""

Acted = tuple[int, str | None, float]
"""(cycle, digest of the policy, total)."""


@dataclass(frozen=True)
class RewardSlope:
    """The learning progress: by how much the total rises in 100 cycles, with its 95 % interval."""

    value: float
    low: float
    high: float
    """The ends of its 95 % interval."""
    cycles: int


def slope(acted: Sequence[Acted]) -> RewardSlope | None:
    """The slope over the last 200 cycles, by least squares; None for fewer than 20. Takes the cycles for independent,
    so that the interval is too narrow where they are not."""
    rows = acted[-SLOPE_OVER:]
    n = len(rows)
    if n < FEWEST:
        return None
    xs, ys = [cycle / 100.0 for cycle, _, _ in rows], [total for *_, total in rows]
    x, y = fmean(xs), fmean(ys)
    wide = math.fsum((one - x) ** 2 for one in xs)
    if wide <= 0.0:
        return None
    rise = math.fsum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / wide
    left = math.fsum((b - y - rise * (a - x)) ** 2 for a, b in zip(xs, ys, strict=True))
    error = SURE * math.sqrt(left / (n - 2) / wide)
    return RewardSlope(rise, rise - error, rise + error, n)


@dataclass(frozen=True)
class PolicyReward:
    """The cycles that were acted under one policy, and their mean total."""

    policy: str | None
    first: int
    last: int
    cycles: int
    mean: float


def by_policy(acted: Sequence[Acted]) -> list[PolicyReward]:
    """The policies of these cycles, the one that acted last first."""
    found: dict[str | None, list[tuple[int, float]]] = {}
    for cycle, policy, total in acted:
        found.setdefault(policy, []).append((cycle, total))
    made = [
        PolicyReward(policy, rows[0][0], rows[-1][0], len(rows), fmean(total for _, total in rows))
        for policy, rows in found.items()
    ]
    return sorted(made, key=lambda one: -one.last)


def curves(acted: Sequence[Acted], policies: Sequence[str | None]) -> dict[str, list[float | None]]:
    """For each of these policies the mean of its last 25 cycles at each cycle that it acted in; else None."""
    lines: dict[str, list[float | None]] = {policy or "none": [] for policy in policies}
    recent: dict[str, list[float]] = {name: [] for name in lines}
    for _, policy, total in acted:
        own = policy or "none"
        for name, line in lines.items():
            if name == own:
                recent[name] = [*recent[name][1 - WINDOW :], total]
            line.append(fmean(recent[name]) if name == own else None)
    return lines

"""The learning curve: the totals of an agent by the policy that acted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from conch.views import FEWEST_SMOOTHED, Acted

WINDOW: Final = 25
"""Cycles of a moving mean."""


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
    """For each of these policies the mean of its last 25 cycles at each cycle that it acted in; else None, as where it
    has acted fewer than FEWEST_SMOOTHED times of more."""
    counts = Counter(policy or "none" for _, policy, _ in acted)
    lines: dict[str, list[float | None]] = {policy or "none": [] for policy in policies}
    recent: dict[str, list[float]] = {name: [] for name in lines}
    for _, policy, total in acted:
        own = policy or "none"
        for name, line in lines.items():
            if name == own:
                recent[name] = [*recent[name][1 - WINDOW :], total]
            is_enough = name == own and (len(recent[name]) >= FEWEST_SMOOTHED or counts[name] < FEWEST_SMOOTHED)
            line.append(fmean(recent[name]) if is_enough else None)
    return lines

"""Reward for a change of satisfaction, and the pressure of needs. Pure functions of values.

A level is satisfaction: 0 starved, 1 satisfied. Urgency is 1 − satisfaction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final

Levels = Mapping[str, float | None]

_SAME: Final = 1e-12
"""Changes up to this size are rounding."""


def counted_reward(
    before: Levels,
    after: Levels,
    priorities: Mapping[str, float],
    missing: float = 1.0,
    *,
    improved: float = 0.5,
    worsened: float = -0.3,
) -> float:
    """Σ priority × (`improved` if it improved, `worsened` if it worsened, 0 if unchanged), unclamped.

    In [−0.3, 0.5] by default where the priorities sum to 1. A need without a priority weighs `missing`; one without a
    level on both sides is ignored.
    """
    return math.fsum(
        priorities.get(need, missing) * (improved if change > 0 else worsened)
        for need, change in _changes(before, after)
        if abs(change) > _SAME
    )


def delta_reward(before: Levels, after: Levels, priorities: Mapping[str, float], missing: float = 1.0) -> float:
    """Σ priority × change, unclamped; in [−1, 1] where the priorities sum to 1. Otherwise as `counted_reward`."""
    return math.fsum(priorities.get(need, missing) * change for need, change in _changes(before, after))


def starving_needs(before: Levels, level: float = 0.1) -> tuple[str, ...]:
    """The needs that stand at or below `level`, in their order."""
    return tuple(need for need, there in before.items() if there is not None and there <= level + _SAME)


def raises_any(before: Levels, after: Levels, needs: Collection[str]) -> bool:
    """Whether one of `needs` has a higher level after than before."""
    return any(change > _SAME for need, change in _changes(before, after) if need in needs)


def starving_factor(before: Levels, after: Levels, level: float = 0.1, factor: float = 0.3) -> float:
    """What a positive total is multiplied by: `factor` while a need stood at or below `level` before the act, and the
    act raised none of the starving ones; else 1.

    In [0, 1] where `factor` is. However many needs starve, it applies once.
    """
    starved = starving_needs(before, level)
    return factor if starved and not raises_any(before, after, starved) else 1.0


def pressing(levels: Mapping[str, float], priorities: Mapping[str, float]) -> dict[str, float]:
    """priority × (0.5 + urgency) per need of `priorities`; a need without a known level counts as satisfied."""
    return {need: priority * (1.5 - levels.get(need, 1.0)) for need, priority in priorities.items()}


def most_pressing(levels: Mapping[str, float], priorities: Mapping[str, float]) -> str:
    """The need with the highest pressure; of equals the first. Raises ValueError without needs."""
    how = pressing(levels, priorities)
    return max(how, key=how.__getitem__)


def _changes(before: Levels, after: Levels) -> Iterator[tuple[str, float]]:
    for need, earlier in before.items():
        later = after.get(need)
        if earlier is not None and later is not None:
            yield need, later - earlier

"""Agreement of two scorers on the acts that both have scored. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

EQUAL: Final = 0.05
"""Two scores count as equal where they differ by at most this share of the wider range."""
FEWEST: Final = 3
"""Least number of acts for a rank correlation: of two, any pair is ±1."""


@dataclass(frozen=True)
class Agreement:
    """How far two scorers agree on the acts that both scored, given in one order."""

    count: int
    equal: float | None
    """Share of scores that differ by at most `EQUAL` of the wider range, 0..1; None without any."""
    same_sign: float | None
    """Share of scores that are both above, both below, or both at 0; None without any."""
    mean_difference: float | None
    """Mean of second minus first, in the scores' own unit; None without any, and where it exceeds all floats."""
    rank_correlation: float | None
    """Spearman's, −1..1, tied values sharing their mean rank; None where it is undefined."""
    why_none: str
    """Why there is no rank correlation; empty where there is one."""


def agreement(first: Sequence[float], second: Sequence[float], widest: float) -> Agreement:
    """The agreement of two series of finite scores, act by act; `widest`: width of the wider of their ranges, above 0.

    Raises ValueError for series of different lengths.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} scores beside {len(second)}")
    if not first:
        return Agreement(0, None, None, None, None, "no act was scored by both")
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    with np.errstate(over="ignore"):
        apart = other - one
        mean = float(np.mean(other / len(other) - one / len(one)) * len(one))
    correlation, why = spearman(one, other)
    return Agreement(
        count=len(first),
        equal=float(np.mean(np.abs(apart) <= EQUAL * widest)),
        same_sign=float(np.mean(np.sign(one) == np.sign(other))),
        mean_difference=mean if math.isfinite(mean) else None,
        rank_correlation=correlation,
        why_none=why,
    )


def spearman(first: np.ndarray, second: np.ndarray) -> tuple[float | None, str]:
    """(Spearman's rank correlation, "") or (None, why it is undefined): Pearson's of the ranks, valid with ties."""
    if len(first) < FEWEST:
        return None, f"{len(first)} scored by both, it takes {FEWEST}"
    one, other = ranks(first), ranks(second)
    one, other = one - one.mean(), other - other.mean()
    if not one.any() or not other.any():
        constant = "both score" if not one.any() and not other.any() else "one scores"
        return None, f"{constant} every act alike"
    value = float(one @ other / math.sqrt(float(one @ one) * float(other @ other)))
    return max(-1.0, min(1.0, value)), ""


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, from 1; equal values share the mean of their ranks.

    >>> ranks(np.array([0.5, 0.1, 0.5])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: np.ndarray = last - (counts - 1) / 2
    return means[where]

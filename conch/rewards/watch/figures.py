"""The watched statistics: plain functions of series, each oldest first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter, mul
from statistics import median

Series = Sequence[float]


def mean(series: Series) -> float:
    """The mean of at least one value."""
    return sum(series) / len(series)


def away(series: Series) -> list[float]:
    """Each value's deviation from the mean."""
    middle = mean(series)
    return [value - middle for value in series]


def spread(series: Series) -> float:
    """The standard deviation, over all n values."""
    far = away(series)
    return math.sqrt(sum(map(mul, far, far)) / len(far))


def variance_shares(parts: Mapping[str, Series], total: Series) -> dict[str, float]:
    """Cov(part, total) ÷ Var(total) of each part; empty for a total that never changes.

    The covariance decomposition of a sum: where the parts add up to the total, their shares add up to 1, correlated or
    not. A part that works against the total has a share below 0, so another's may exceed 1.
    """
    if max(total) == min(total):
        return {}
    far = away(total)
    whole = sum(map(mul, far, far))
    return {name: sum(map(mul, part, far)) / whole for name, part in parts.items()}


def share_error(part: Series, total: Series) -> float:
    """The standard error of a part's share, by the jackknife: from the shares with each act left out.

    ∞ where the variance depends on one act. The total must vary.
    """
    n = len(total)
    far, own = away(total), away(part)
    whole, common, taken = sum(map(mul, far, far)), sum(map(mul, own, far)), n / (n - 1)
    left = [(common - taken * one * other, whole - taken * other * other) for one, other in zip(own, far, strict=True)]
    if min(variance for _, variance in left) <= whole * 1e-9:
        return math.inf
    return spread([covariance / variance for covariance, variance in left]) * math.sqrt(n - 1)


def rank_shift(recent: Series, earlier: Series) -> float:
    """Confidence that the recent values are greater: the Mann–Whitney U in standard deviations, corrected for ties.

    At most √(n + m − 1) away from 0 for n and m values; above 0: greater; 0.0 where all are equal. Based on ranks
    alone, so a few outliers have no more influence than a few ordinary values.
    """
    n, m = len(recent), len(earlier)
    ordered = sorted([*((value, 1) for value in recent), *((value, 0) for value in earlier)], key=itemgetter(0))
    ranks, ties, place = 0.0, 0, 0
    for _, group in groupby(ordered, key=itemgetter(0)):
        equal = [is_recent for _, is_recent in group]
        ranks += sum(equal) * (place + (len(equal) + 1) / 2)
        ties += len(equal) ** 3 - len(equal)
        place += len(equal)
    varies = n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1)))
    return (ranks - n * (n + m + 1) / 2) / math.sqrt(varies) if varies > 0.0 else 0.0


def deviations(series: Series) -> list[float]:
    """Each value's distance from the median."""
    middle = median(series)
    return [abs(value - middle) for value in series]

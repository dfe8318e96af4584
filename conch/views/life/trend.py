"""Whether a series of totals moves: means and slopes with intervals that hold for totals that resemble their
neighbours. Pure.

A total depends on the ones before it, so that cycles are no independent samples. Everything here is taken over means of
batches of neighbouring cycles. What still connects a batch with the next one is measured: the correlation of residuals
at lag 1, corrected for its bias in so few batches, widens the error by √((1 + r) ÷ (1 − r)), as of an autoregressive
series. Quantiles are those of Student's t. Of simulated level series of 200 to 5,000 acts, with a correlation of 0 to
0.8 between neighbours, at most about 2 of 100 move by any of the three tests of `life_trend`, in either direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ENDS: Final = 100
"""Cycles of the beginning that the end of a life is compared with."""
LEAST_LIFE: Final = 2 * ENDS
"""Cycles of the shortest life that is judged."""
CHECKPOINTS: Final = 1.1
"""A life is judged anew once it has this many times the cycles: each look beside these would be another chance for a
false alarm, and a sentence that flickers."""
FEWEST_COHORTS: Final = 20
MOST_COHORTS: Final = 30
LEAST_COHORT: Final = 25
"""Cycles of a cohort, at least, of a life that is long enough for more than FEWEST_COHORTS."""
GREATEST_STEP: Final = 10.0
"""Of ten differences between neighbouring cohorts that vary by chance alone the greatest is, squared, about so many
times the variance of a cohort."""
FEWEST_BATCHES: Final = 8
"""Batches that an interval needs, where there are as many values."""
MOST_BATCHES: Final = 20
SHOWN_SURE: Final = 1.96
"""Standard normal quantile of a 95 % interval, as it is shown."""
SURE: Final = 2.576
"""The same of a verdict: 99 %."""
STILL: Final = 1.645
"""The same, one-sided 95 %: that a rise known to have been goes on, or has ended."""
MOST_CORRELATED: Final = 0.8
ROUNDING: Final = 1e-9
"""Of sums of totals: a life of equal ones neither rises nor falls."""

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A figure with its standard error."""

    value: float
    error: float
    free: float = math.inf
    """Degrees of freedom of the error."""

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - self.away(SHOWN_SURE)

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + self.away(SHOWN_SURE)

    @property
    def is_rise(self) -> bool:
        """Whether it is above 0 at 99 %."""
        return self.value - self.away(SURE) > ROUNDING

    @property
    def is_fall(self) -> bool:
        """Whether it is below 0 at 99 %."""
        return self.value + self.away(SURE) < -ROUNDING

    def away(self, quantile: float) -> float:
        """Half the width of an interval, by the quantile that it would have of a normal distribution."""
        return student(quantile, self.free) * self.error if self.error else 0.0


class LifeStretch(NamedTuple):
    """Neighbouring cycles, and the mean of their totals."""

    first: int
    cycles: int
    """How many totals the mean is of."""
    mean: float


class LifeTrend(NamedTuple):
    """How the totals of a life moved."""

    start: float
    """Mean total of the first 100 cycles."""
    end: float
    """Mean total of the last third."""
    change: Interval
    """End minus start."""
    whole: Interval
    """By how much a straight line over all of the life rises."""
    recent: Interval
    """By how much one over its last third does."""
    turn: int
    """The cycle at which a line that rises up to there and is level after it fits best."""
    is_late_turn: bool
    """Whether that cycle is in the last third."""


def checkpoint(cycles: int) -> int:
    """The number of cycles at which a life of so many was judged last; 0: it is too short. 200, 220, 242, …"""
    if cycles < LEAST_LIFE:
        return 0
    found = LEAST_LIFE
    while (later := next_checkpoint(found)) <= cycles:
        found = later
    return found


def next_checkpoint(cycles: int) -> int:
    """The checkpoint after this one."""
    return math.ceil(cycles * CHECKPOINTS - 1e-9)


def cohort_count(cycles: int) -> int:
    """Cohorts of a life of so many cycles."""
    return min(MOST_COHORTS, max(FEWEST_COHORTS, cycles // LEAST_COHORT))


def cohorts_of(cycles: Sequence[int], totals: Sequence[float]) -> list[LifeStretch]:
    """The cohorts of a life whose every total is known, oldest first, as equal in cycles as can be."""
    count = min(cohort_count(len(totals)), len(totals))
    bounds = [at * len(totals) // count for at in range(count + 1)] if count else [0]
    return [
        LifeStretch(cycles[begin], end - begin, math.fsum(totals[begin:end]) / (end - begin))
        for begin, end in pairwise(bounds)
    ]


def life_trend(cohorts: Sequence[LifeStretch], first: Sequence[float]) -> LifeTrend | None:
    """How a life moved: of its cohorts, oldest first and about equal in cycles, and its first 100 totals.

    A cohort may be a sample of neighbouring cycles. None of fewer than FEWEST_BATCHES cohorts.
    """
    count = len(cohorts)
    if count < FEWEST_BATCHES or not len(first):
        return None
    places, means = np.arange(count, dtype=np.float64), np.array([one.mean for one in cohorts], np.float64)
    variance, free = _long_run(_bent(means), 4)
    cycles = sum(one.cycles for one in cohorts) / count
    third = max(3, count // 3)
    # A few acts at the end of equal ones are no trend: a fit that bends with them would leave them no error.
    variance = max(variance, float(np.abs(np.diff(means[-third - 1 :])).max()) ** 2 / GREATEST_STEP)
    late = float(means[-third:].mean())
    start = math.fsum(first) / len(first)
    error = math.sqrt(variance * (cycles / len(first) + 1.0 / third))
    turn = min(range(1, count - 1), key=lambda at: _misfit(np.minimum(places, at), means))
    return LifeTrend(
        start=start,
        end=late,
        change=Interval(late - start, error, free),
        whole=_rise(means, variance, free),
        recent=_rise(means[-third:], variance, free),
        turn=cohorts[turn].first,
        is_late_turn=turn >= count - third,
    )


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of values in the order of cycles. Of fewer than two the error is infinite."""
    found = np.asarray(values, np.float64)
    if len(found) < 2:
        return Interval(float(found.mean()) if len(found) else 0.0, math.inf)
    batches = _batches(found)
    variance, free = _long_run(batches - batches.mean(), 1)
    return Interval(float(found.mean()), math.sqrt(variance / len(batches)), free)


def difference_interval(first: Sequence[float], last: Sequence[float]) -> Interval:
    """Mean of the last minus mean of the first values, each in the order of cycles."""
    one, other = mean_interval(first), mean_interval(last)
    error = math.hypot(one.error, other.error)
    if not error or not math.isfinite(error):
        return Interval(other.value - one.value, error)
    parts = [(side.error / error) ** 4 / side.free for side in (one, other)]
    return Interval(other.value - one.value, error, 1.0 / sum(parts))  # Satterthwaite, 1946


def slope_interval(xs: Sequence[float], ys: Sequence[float]) -> Interval | None:
    """The slope of the least-squares line through values in the order of cycles; None where they have none."""
    width = max(1, len(xs) // MOST_BATCHES)
    places, means = _batches(np.asarray(xs, np.float64), width), _batches(np.asarray(ys, np.float64), width)
    away = places - places.mean()
    wide = float(away @ away)
    if len(places) < FEWEST_BATCHES or wide <= 0.0:
        return None
    rise = float(away @ means) / wide
    variance, free = _long_run(means - means.mean() - rise * away, 2)
    return Interval(rise, math.sqrt(variance / wide), free)


def student(quantile: float, free: float) -> float:
    """Student's quantile by that of a normal distribution and the degrees of freedom, 3 or more (Fisher and Cornish,
    1960); for fewer, as of 3."""
    if math.isinf(free):
        return quantile
    z, v = quantile, max(3.0, free)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, 1))


def _batches(values: Floats, width: int = 0) -> Floats:
    """Means of batches of so many neighbours, the newest values whole; by default of at most MOST_BATCHES."""
    width = width or max(1, len(values) // MOST_BATCHES)
    whole = len(values) // width
    found: Floats = values[len(values) - whole * width :].reshape(whole, width).mean(axis=1)
    return found


def _long_run(left: Floats, used: int) -> tuple[float, float]:
    """(variance of a batch's mean as it counts in a mean of many, its degrees of freedom) by the residuals of a fit
    with so many parameters."""
    count, squares = len(left), float(left @ left)
    free = max(1.0, float(count - used))
    if squares <= 1e-18 * count:
        return 0.0, free
    found = float(left[1:] @ left[:-1]) / squares
    bias = used + 2.0  # of r at lag 1, about −(used + …r) ÷ count: measured on simulated series
    r = (found * count + bias) / (count - bias) if count > 2 * bias else found
    r = min(MOST_CORRELATED, max(0.0, r))
    return squares / free * (1.0 + r) / (1.0 - r), free


def _rise(means: Floats, variance: float, free: float) -> Interval:
    """By how much a straight line through the means rises from the first to the last."""
    away = np.arange(len(means)) - (len(means) - 1) / 2.0
    wide = float(away @ away)
    span = len(means) - 1.0
    return Interval(span * float(away @ means) / wide, span * math.sqrt(variance / wide), free)


def _bent(means: Floats) -> Floats:
    """Residuals of the best line with one bend, or of the best two levels: a jump, as with a new policy, is none."""
    fits = [means - basis @ (basis.T @ means) for basis in _bases(len(means))]
    best: Floats = min(fits, key=lambda left: float(left @ left))
    return best


@lru_cache(maxsize=64)
def _bases(count: int) -> tuple[Floats, ...]:
    """Orthonormal bases for lines over so many places with a bend, by the place of the bend, and for two levels."""
    places = np.arange(count, dtype=np.float64)
    lines = [np.stack([places**0, places, np.maximum(places - bend, 0.0)], axis=1) for bend in range(2, count - 2)]
    levels = [np.stack([places < step, places >= step], axis=1).astype(np.float64) for step in range(2, count - 1)]
    return tuple(np.linalg.qr(one)[0] for one in (*lines, *levels))


def _misfit(xs: Floats, ys: Floats) -> float:
    """Squared distances from the best line over these xs."""
    away, up = xs - xs.mean(), ys - ys.mean()
    rise = float(away @ up) / float(away @ away)
    left = up - rise * away
    return float(left @ left)

"""The curve of an agent's whole life: at most 400 buckets of neighbouring cycles, folded from its totals as they come.

A bucket keeps count, sum, least and greatest total and a histogram, so that its memory does not depend on how many
cycles it stands for: 1 MB an agent. When there are more buckets than 400, neighbours become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.experience import LifeBlock

MOST_BUCKETS: Final = 400
LEAST_WIDTH: Final = 8
"""Cycles of a bucket of a short life: with fewer, a curve is all noise (ours)."""
LEAST, GREATEST = -2.0, 1.0
"""The bounds of a total."""
BINS: Final = 600
"""Bins of a histogram: 0.005 of the total each, the error of a percentile at most."""
BAND: Final = (0.1, 0.9)
"""The shares below the lower and the upper edge of the band."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LifeBucket(NamedTuple):
    """Neighbouring cycles of a life."""

    first: int
    """The first cycle that the bucket may have."""
    cycles: int
    """How many there are."""
    mean: float
    low: float
    high: float
    lower: float | None
    """The total that a tenth of the cycles is below; None of cycles that retention removed."""
    upper: float | None
    """The total that nine tenths are below."""


class LifeCurve:
    """The buckets of one agent."""

    def __init__(self, width: int = LEAST_WIDTH) -> None:
        """`width`: that it begins with, a power of two."""
        self.width = width
        """Cycles of a bucket, a power of two."""
        self._start = 0
        """Number of the first bucket: of cycle n it is n // width."""
        self._cycles: Ints = np.zeros(0, np.int64)
        self._sums: Floats = np.zeros(0)
        self._lows: Floats = np.zeros(0)
        self._highs: Floats = np.zeros(0)
        self._bins: NDArray[np.uint32] = np.zeros((0, BINS), np.uint32)

    @property
    def behind(self) -> int:
        """The first cycle behind the last bucket; 0 without any."""
        return (self._start + len(self._cycles)) * self.width if len(self._cycles) else 0

    def add(self, totals: Sequence[tuple[int, float]]) -> None:
        """Add (cycle, total), in the order of cycles, none of them before the first bucket."""
        if not totals:
            return
        found = np.array(totals, np.float64)
        cycles, values = found[:, 0].astype(np.int64), np.clip(found[:, 1], LEAST, GREATEST)
        self._make_room(int(cycles[0]), int(cycles[-1]))
        at = cycles // self.width - self._start
        size = len(self._cycles)
        self._cycles += np.bincount(at, minlength=size)
        self._sums += np.bincount(at, weights=values, minlength=size)
        np.minimum.at(self._lows, at, values)
        np.maximum.at(self._highs, at, values)
        bins = np.minimum(((values - LEAST) / (GREATEST - LEAST) * BINS).astype(np.int64), BINS - 1)
        self._bins += np.bincount(at * BINS + bins, minlength=size * BINS).reshape(size, BINS).astype(np.uint32)

    def add_removed(self, blocks: Sequence[LifeBlock]) -> None:
        """Add sums of removed cycles, in their order, before any other: each counts where its block begins."""
        for block in blocks:
            self._make_room(block.cycle, block.cycle)
            at = block.cycle // self.width - self._start
            self._cycles[at] += block.acts
            self._sums[at] += block.total
            self._lows[at] = min(self._lows[at], block.low)
            self._highs[at] = max(self._highs[at], block.high)

    def forget(self, since: int) -> int:
        """Forget the cycles from about `since` on; the first cycle that is to be added again."""
        keep = max(0, min(since // self.width - self._start, len(self._cycles)))
        self._cut(keep)
        return (self._start + keep) * self.width

    def buckets(self) -> list[LifeBucket]:
        """The buckets that hold a cycle, oldest first."""
        edges = self._edges()
        return [
            LifeBucket(
                (self._start + at) * self.width,
                int(self._cycles[at]),
                float(self._sums[at] / self._cycles[at]),
                float(self._lows[at]),
                float(self._highs[at]),
                *((None, None) if np.isnan(edges[at, 0]) else (float(edges[at, 0]), float(edges[at, 1]))),
            )
            for at in np.flatnonzero(self._cycles).tolist()
        ]

    def _edges(self) -> Floats:
        """The lower and the upper edge of each bucket's band; NaN where there is no histogram."""
        counted = self._bins.sum(axis=1, dtype=np.int64)
        below = self._bins.cumsum(axis=1)
        edges = np.full((len(counted), 2), np.nan)
        for side, share in enumerate(BAND):
            rank = np.maximum(1, np.ceil(share * counted))
            place = (below >= rank[:, None]).argmax(axis=1)
            middle = LEAST + (place + 0.5) * (GREATEST - LEAST) / BINS
            edges[:, side] = np.where(counted > 0, np.clip(middle, self._lows, self._highs), np.nan)
        return edges

    def _make_room(self, first: int, last: int) -> None:
        if not len(self._cycles):
            self._start = first // self.width
        while last // self.width - self._start >= MOST_BUCKETS:
            self._halve()
        more = last // self.width - self._start + 1 - len(self._cycles)
        if more > 0:
            self._cycles = np.concatenate([self._cycles, np.zeros(more, np.int64)])
            self._sums = np.concatenate([self._sums, np.zeros(more)])
            self._lows = np.concatenate([self._lows, np.full(more, np.inf)])
            self._highs = np.concatenate([self._highs, np.full(more, -np.inf)])
            self._bins = np.concatenate([self._bins, np.zeros((more, BINS), np.uint32)])

    def _halve(self) -> None:
        """Make one of each two neighbours."""
        numbers = (self._start + np.arange(len(self._cycles))) // 2
        start = self._start // 2
        self.width, self._start = 2 * self.width, start
        if not len(numbers):
            return
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        self._cycles = np.add.reduceat(self._cycles, firsts)
        self._sums = np.add.reduceat(self._sums, firsts)
        self._lows = np.minimum.reduceat(self._lows, firsts)
        self._highs = np.maximum.reduceat(self._highs, firsts)
        self._bins = np.add.reduceat(self._bins, firsts, axis=0)

    def _cut(self, keep: int) -> None:
        self._cycles, self._sums = self._cycles[:keep], self._sums[:keep]
        self._lows, self._highs, self._bins = self._lows[:keep], self._highs[:keep], self._bins[:keep]

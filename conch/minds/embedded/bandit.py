"""LinUCB, a contextual bandit: one linear model of the reward over a choice's features, with an upper confidence bound.

After Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation" (2010),
with forgetting, and with rewards that come late, in any order, or corrected.

A process may have a thousand of them: one matrix is stored whole, the other as its upper triangle, and neither is
allocated before the first reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK = 128
"""Choices between two inversions of the matrix; forgetting is applied there, BLOCK steps at once."""
WAITING = 256
"""Most choices that await a reward at once; beyond, the oldest are dropped without one."""


class Sparse(NamedTuple):
    """A sparse vector: indices and values."""

    places: NDArray[np.uint16]
    values: Floats

    @classmethod
    def of(cls, x: Floats) -> Sparse:
        """The nonzero entries of `x` [d]."""
        places = np.flatnonzero(x)
        return cls(places.astype(np.uint16), x[places])

    def whole(self, size: int) -> Floats:
        """The dense vector [size]."""
        x = np.zeros(size)
        x[self.places] = self.values
        return x


@dataclass
class LinUCB:
    """The bandit's model: the posterior of a ridge regression over d features.

    The expectation is learnt from the rewards received; the confidence bound of a choice shrinks as soon as it is made,
    so that choices with late rewards are not repeated meanwhile.
    """

    size: int
    """d, at most 65536."""
    alpha: float
    """Width of the confidence bound, in standard deviations."""
    gamma: float
    """Factor by which one choice discounts all earlier ones, 0..1."""
    ridge: float
    """Ridge penalty: how strongly an unknown weight is held at 0."""

    def __post_init__(self) -> None:
        self.b: Floats = np.zeros(self.size)
        self.choices = 0
        self._theta: Floats = np.zeros(self.size)
        self._half: Floats | None = None
        """The upper triangle of A, from the choices with a reward, row by row; None: only the ridge on the diagonal."""
        self._inverse: Floats | None = None
        """The inverse of A, [d, d]; None: not computed yet, as is `_theta`."""
        self._waiting: dict[int, Sparse] = {}
        """Choices that await their reward, by the value of `choices` right after each was made."""

    @property
    def A(self) -> Floats:  # noqa: N802 - as the paper calls it
        """The matrix A, [d, d]."""
        if self._half is None:
            return self.ridge * np.eye(self.size)
        rows, columns = _upper(self.size)
        whole = np.empty((self.size, self.size))
        whole[rows, columns] = whole[columns, rows] = self._half
        return whole

    @A.setter
    def A(self, whole: Floats) -> None:  # noqa: N802
        self._half = whole[_upper(self.size)]
        self._inverse = None

    def scores(self, x: Floats) -> Floats:
        """Expected reward plus confidence bound for each row of `x` [n, d]; shape [n]."""
        coarse = x.astype(np.float32)  # twice as fast, and the bound does not need six digits
        if self._half is None:
            spread = np.einsum("ij,ij->i", coarse, coarse) / np.float32(self.ridge)
        else:
            spread = np.einsum("ij,ij->i", coarse @ self._known().astype(np.float32), coarse)
        if self._waiting:
            spread = spread - self._seen_by(x)
        scores: Floats = x @ self._theta + self.alpha * np.sqrt(np.maximum(spread, 0.0))
        return scores

    def expected(self, x: Floats) -> Floats:
        """Expected reward of each row of `x` [n, d]; shape [n]."""
        expected: Floats = x @ self._theta
        return expected

    def choose(self, x: Sparse) -> None:
        """Record a choice with features `x`; its reward is not known yet."""
        self.choices += 1
        if self.choices % BLOCK == 0:
            self._forget()
        self._waiting[self.choices] = x
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def learn(self, x: Sparse, reward: float, chosen_at: int) -> None:
        """Learn a choice's first reward. `chosen_at`: `choices` right after it was made."""
        kept = self._kept_since(chosen_at)
        self._waiting.pop(chosen_at, None)
        if self._half is None:
            self._half = self.A[_upper(self.size)]
        inverse = self._known()
        rows, columns = np.triu_indices(len(x.places))
        first, second = x.places[rows].astype(np.intp), x.places[columns].astype(np.intp)
        self._half[_place(first, second, self.size)] += kept * (x.values[rows] * x.values[columns])
        _add_to_inverse(inverse, Sparse(x.places, kept**0.5 * x.values))
        self.b[x.places] += kept * reward * x.values
        self._theta = inverse @ self.b

    def correct(self, x: Sparse, change: float, chosen_at: int) -> None:
        """Add `change` to a reward that was learnt."""
        inverse, step = self._known(), change * self._kept_since(chosen_at) * x.values
        self.b[x.places] += step
        self._theta = self._theta + inverse[:, x.places] @ step

    def refresh(self) -> None:
        """Recompute what follows from `A` and `b`."""
        self._inverse = None
        if self._half is not None:
            self._known()

    def _known(self) -> Floats:
        """The inverse, computed where it was not yet."""
        if self._inverse is None:
            self._inverse = np.linalg.inv(self.A).astype(np.float64, copy=False)
            self._theta = self._inverse @ self.b
        return self._inverse

    def _seen_by(self, x: Floats) -> Floats:
        """Reduction of each row's variance by the choices that await a reward (Woodbury)."""
        waiting = np.array([
            self._kept_since(at) ** 0.5 * one.whole(self.size) for at, one in self._waiting.items()
        ])  # fmt: skip
        towards = waiting / self.ridge if self._half is None else waiting @ self._known()
        root = np.linalg.cholesky(np.eye(len(waiting)) + towards @ waiting.T)
        seen = np.linalg.solve(root, towards @ x.T).astype(np.float64, copy=False)
        off: Floats = np.square(seen).sum(axis=0)
        return off

    def _kept_since(self, chosen_at: int) -> float:
        blocks = self.choices // BLOCK - chosen_at // BLOCK
        return float(self.gamma ** (BLOCK * blocks))

    def _forget(self) -> None:
        # What is discounted in A comes back as ridge: otherwise A fades in directions that are not tried, and their
        # bound grows without limit.
        if self._half is None:
            return
        kept = self.gamma**BLOCK
        self._half *= kept
        diagonal = np.arange(self.size)
        self._half[_place(diagonal, diagonal, self.size)] += (1.0 - kept) * self.ridge
        self.b *= kept
        self.refresh()


@lru_cache(maxsize=4)
def _upper(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a matrix's upper triangle, row by row."""
    rows, columns = np.triu_indices(size)
    return rows, columns


def _place(rows: NDArray[np.intp], columns: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Index of (row, column), row ≤ column, in the stored upper triangle."""
    return rows * size - rows * (rows - 1) // 2 + columns - rows


def _add_to_inverse(inverse: Floats, x: Sparse) -> None:
    """Update an inverse in place to that of the matrix with x·xᵀ added (Sherman and Morrison)."""
    seen = inverse[:, x.places] @ x.values
    inverse -= np.outer(seen, seen / (1.0 + float(x.values @ seen[x.places])))

"""LinUCB: one linear model of the reward over the features of a choice, with optimism where it knows little.

After Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation" (2010),
with forgetting, and with rewards that come late, in any order, or corrected.

A process may have a thousand of them: one matrix is held whole, the other as its upper half, and neither before
anything was learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK = 128
"""Choices from one inversion to the next; forgetting happens there, BLOCK steps at once."""
WAITING = 256
"""Choices whose reward is waited for at once; of more the oldest are held to have got none."""


class Sparse(NamedTuple):
    """A vector most of which is 0."""

    places: NDArray[np.uint16]
    values: Floats

    @classmethod
    def of(cls, x: Floats) -> Sparse:
        """What of `x` [d] is not 0."""
        places = np.flatnonzero(x)
        return cls(places.astype(np.uint16), x[places])

    def whole(self, size: int) -> Floats:
        """The vector [size]."""
        x = np.zeros(size)
        x[self.places] = self.values
        return x


@dataclass
class LinUCB:
    """The posterior of a ridge regression over d features.

    What is expected comes from the rewards that came; the optimism shrinks with a choice as soon as it is made, so
    that choices whose rewards are late are not made again and again.
    """

    size: int
    """d, at most 65536."""
    alpha: float
    """Width of the optimism, in standard deviations of what is not known."""
    gamma: float
    """Share of the past that one choice leaves, 0..1."""
    ridge: float
    """How firmly an unknown weight is held at 0."""

    def __post_init__(self) -> None:
        self.b: Floats = np.zeros(self.size)
        self.choices = 0
        self._theta: Floats = np.zeros(self.size)
        self._half: Floats | None = None
        """The upper half of A, of the choices whose reward came, row by row; None: ridge on the diagonal alone."""
        self._inverse: Floats | None = None
        """Of A, [d, d]; None: it is still to be worked out, as is `_theta`."""
        self._waiting: dict[int, Sparse] = {}
        """The choices whose reward has not come, by `choices` right after each was made."""

    @property
    def A(self) -> Floats:  # noqa: N802 - as the paper calls it
        """The matrix, [d, d]."""
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
        """Expected reward plus optimism for each row of `x` [n, d]; shape [n]."""
        coarse = x.astype(np.float32)  # twice as fast, and optimism is no matter of six digits
        if self._half is None:
            spread = np.einsum("ij,ij->i", coarse, coarse) / np.float32(self.ridge)
        else:
            spread = np.einsum("ij,ij->i", coarse @ self._known().astype(np.float32), coarse)
        if self._waiting:
            spread = spread - self._seen_by(x)
        scores: Floats = x @ self._theta + self.alpha * np.sqrt(np.maximum(spread, 0.0))
        return scores

    def choose(self, x: Sparse) -> None:
        """The choice with features `x` is made; its reward is not known yet."""
        self.choices += 1
        if self.choices % BLOCK == 0:
            self._forget()
        self._waiting[self.choices] = x
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def learn(self, x: Sparse, reward: float, chosen_at: int) -> None:
        """The first word on a choice's reward. `chosen_at`: `choices` right after it was made."""
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
        """A reward that was learnt is `change` more than was said."""
        inverse, step = self._known(), change * self._kept_since(chosen_at) * x.values
        self.b[x.places] += step
        self._theta = self._theta + inverse[:, x.places] @ step

    def refresh(self) -> None:
        """Work out afresh what follows from `A` and `b`."""
        self._inverse = None
        if self._half is not None:
            self._known()

    def _known(self) -> Floats:
        """The inverse, worked out where it was not yet."""
        if self._inverse is None:
            self._inverse = np.linalg.inv(self.A).astype(np.float64, copy=False)
            self._theta = self._inverse @ self.b
        return self._inverse

    def _seen_by(self, x: Floats) -> Floats:
        """What the choices that wait take off the spread of each row of `x` (Woodbury)."""
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
        # What is forgotten of A comes back as ridge: else A fades in directions that are not tried, and optimism
        # explodes there.
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
    """Rows and columns of the upper half of a matrix, row by row."""
    rows, columns = np.triu_indices(size)
    return rows, columns


def _place(rows: NDArray[np.intp], columns: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Where (row, column), row ≤ column, stands in the upper half."""
    return rows * size - rows * (rows - 1) // 2 + columns - rows


def _add_to_inverse(inverse: Floats, x: Sparse) -> None:
    """Make an inverse that of the matrix with x·xᵀ added, in place (Sherman and Morrison)."""
    seen = inverse[:, x.places] @ x.values
    inverse -= np.outer(seen, seen / (1.0 + float(x.values @ seen[x.places])))

"""LinUCB: one linear model of the reward over the features of a choice, with optimism where it knows little.

After Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation" (2010),
with forgetting, and with rewards that come late, in any order, or corrected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK = 128
"""Choices from one inversion to the next; forgetting happens there, BLOCK steps at once."""


@dataclass
class LinUCB:
    """The posterior of a ridge regression over d features.

    What is expected comes from the rewards that came; the optimism shrinks with a choice as soon as it is made, so
    that choices whose rewards are late are not made again and again.
    """

    size: int
    """d."""
    alpha: float
    """Width of the optimism, in standard deviations of what is not known."""
    gamma: float
    """Share of the past that one choice leaves, 0..1."""
    ridge: float
    """How firmly an unknown weight is held at 0."""

    def __post_init__(self) -> None:
        self.A: Floats = self.ridge * np.eye(self.size)
        """Of the choices whose reward came, [d, d]."""
        self.b: Floats = np.zeros(self.size)
        self.waiting: Floats = np.zeros((self.size, self.size))
        """What the choices whose reward has not come would add to `A`."""
        self.choices = 0
        self.refresh()

    def scores(self, x: Floats) -> Floats:
        """Expected reward plus optimism for each row of `x` [n, d]; shape [n]."""
        coarse = x.astype(np.float32)  # twice as fast, and optimism is no matter of six digits
        spread = np.einsum("ij,ij->i", coarse @ self._spread.astype(np.float32), coarse)
        scores: Floats = x @ self._theta + self.alpha * np.sqrt(np.maximum(spread, 0.0))
        return scores

    def choose(self, x: Floats) -> None:
        """The choice with features `x` [d] is made; its reward is not known yet."""
        self.choices += 1
        if self.choices % BLOCK == 0:
            self._forget()
        _add(self.waiting, x, 1.0)
        _invert_with(self._spread, x)

    def learn(self, x: Floats, reward: float, chosen_at: int) -> None:
        """The first word on a choice's reward. `chosen_at`: `choices` right after it was made."""
        kept = self._kept_since(chosen_at)
        _add(self.waiting, x, -kept)
        _add(self.A, x, kept)
        _invert_with(self._inverse, kept**0.5 * x)
        self.b += kept * reward * x
        self._theta = self._inverse @ self.b

    def correct(self, x: Floats, change: float, chosen_at: int) -> None:
        """A reward that was learnt is `change` more than was said."""
        step = change * self._kept_since(chosen_at) * x
        self.b += step
        self._theta = self._theta + self._inverse @ step

    def refresh(self) -> None:
        """Work out afresh what follows from `A`, `b` and `waiting`."""
        self._inverse: Floats = _inverse(self.A)
        nothing_waits = np.abs(self.waiting).max() < 1e-9
        self._spread: Floats = self._inverse.copy() if nothing_waits else _inverse(self.A + self.waiting)
        self._theta = self._inverse @ self.b

    def _kept_since(self, chosen_at: int) -> float:
        blocks = self.choices // BLOCK - chosen_at // BLOCK
        return float(self.gamma ** (BLOCK * blocks))

    def _forget(self) -> None:
        # What is forgotten of A comes back as ridge: else A fades in directions that are not tried, and optimism
        # explodes there.
        kept = self.gamma**BLOCK
        self.A *= kept
        self.A[np.diag_indices(self.size)] += (1.0 - kept) * self.ridge
        self.b *= kept
        self.waiting *= kept
        self.refresh()


def _inverse(a: Floats) -> Floats:
    return np.linalg.inv(a).astype(np.float64, copy=False)


def _add(matrix: Floats, x: Floats, share: float) -> None:
    """Add share·x·xᵀ in place. Most of `x` is 0."""
    some = np.flatnonzero(x)
    matrix[np.ix_(some, some)] += share * np.outer(x[some], x[some])


def _invert_with(inverse: Floats, x: Floats) -> None:
    """Make an inverse that of the matrix with x·xᵀ added, in place (Sherman and Morrison)."""
    some = np.flatnonzero(x)
    seen = inverse[:, some] @ x[some]
    inverse -= np.outer(seen, seen / (1.0 + float(x @ seen)))

"""How likely an experience is to be drawn by priority (Schaul et al. 2016, Prioritized Experience Replay). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from conch.errors import UsageError

HEADROOM: Final = 500.0
"""Doublings of the scale of ages before all priorities are made anew: a float of 64 bits holds 1,023."""


@dataclass(frozen=True)
class PriorityRule:
    """P(i) = p(i)^alpha ÷ sum, of p = (surprise + floor) × 0.5^(age ÷ half_life) ÷ (1 + uses).

    Surprise is |total - expected|. Age is counted in experiences recorded since, uses in batches that it was in.
    """

    alpha: float = 0.6
    """How much the priority counts, 0..1; 0 draws uniformly. The paper's value for proportional priorities is 0.6."""
    beta: float = 0.4
    """How much the importance weights correct for it at first, 0..1; the paper begins with 0.4."""
    annealing: int = 10_000
    """Prioritised batches in which beta rises to 1, in equal steps."""
    floor: float = 0.01
    """What an experience without any surprise has, above 0: totals mostly lie in -1..1, in steps of some 0.01."""
    half_life: float | None = None
    """Experiences recorded since, after which a priority has fallen to half; None: the size of the view."""

    def __post_init__(self) -> None:
        """Raises UsageError for a value outside its range."""
        for name, holds, words in (
            ("alpha", 0 <= self.alpha <= 1, "0 to 1"),
            ("beta", 0 <= self.beta <= 1, "0 to 1"),
            ("annealing", self.annealing >= 1, "at least 1"),
            ("floor", self.floor > 0, "above 0"),
            ("half_life", self.half_life is None or self.half_life > 0, "above 0"),
        ):
            if not holds:
                raise UsageError(f"{name} of the priorities is {getattr(self, name)}: {words}")

    def beta_at(self, batches: int) -> float:
        """Beta after so many prioritised batches."""
        return self.beta + (1.0 - self.beta) * min(1.0, batches / self.annealing)

    def powers(
        self, surprise: NDArray[np.float64], uses: NDArray[np.int32], born: NDArray[np.float64], half_life: float
    ) -> NDArray[np.float64]:
        """p^alpha of experiences, to one scale; `born`: when each was recorded, in experiences from a common origin.

        An age is a difference to the newest one, so every new experience would change all priorities: instead the
        newer ones are raised, and their ratios are the same.
        """
        shares: NDArray[np.float64] = ((surprise + self.floor) / (1.0 + uses)) ** self.alpha
        return shares * np.exp2(self.alpha * born / half_life)


def importance(chances: NDArray[np.float64], count: int, beta: float) -> NDArray[np.float64]:
    """The importance weights of draws with these probabilities from `count` rows: (count × P)^-beta, the largest of the
    batch scaled to 1."""
    weights: NDArray[np.float64] = (count * chances) ** -beta
    weights /= weights.max()
    return weights

"""The last choices of a reflex mind with their candidates, so that other parameters can be asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from conch.minds.embedded.bandit import Floats, LinUCB
from conch.minds.embedded.features import SIZE
from conch.minds.embedded.memory import trim

MOST_CHOICES: Final = 1000
"""Choices that are kept; each has some 10 KB."""
EVEN: Final = 1e-9
"""Scores that differ by less are equal."""


@dataclass(frozen=True)
class DrawnChoice:
    """A decision: its candidates' features as entries of a matrix that is nearly empty, and which was chosen."""

    cycle: int
    count: int
    """Candidates."""
    rows: NDArray[np.uint16]
    columns: NDArray[np.uint16]
    values: NDArray[np.float32]
    bonus: Floats
    """Exploration bonus of each."""
    alike: tuple[int, ...]
    """The candidates with the chosen call."""
    propensity: float

    @classmethod
    def of(cls, cycle: int, features: Floats, bonus: Floats, alike: list[int], propensity: float) -> DrawnChoice:
        """The record of a decision."""
        rows, columns = np.nonzero(features)
        return cls(
            cycle,
            len(features),
            rows.astype(np.uint16),
            columns.astype(np.uint16),
            features[rows, columns].astype(np.float32),
            bonus,
            tuple(alike),
            propensity,
        )

    @property
    def features(self) -> Floats:
        """The candidates' features [count, SIZE]."""
        whole = np.zeros((self.count, SIZE))
        whole[self.rows, self.columns] = self.values
        return whole

    def chances(self, bandit: LinUCB, epsilon: float) -> Floats:
        """The probability with which a mind of these parameters chooses each candidate."""
        scores = bandit.scores(self.features) + self.bonus
        preferred = scores >= scores.max() - EVEN
        chances: Floats = epsilon / self.count + (1.0 - epsilon) * preferred / preferred.sum()
        return chances


class ChoiceLog:
    """The last MOST_CHOICES decisions of a mind, and what they earned."""

    def __init__(self) -> None:
        self._drawn: dict[int, DrawnChoice] = {}
        self._earned: dict[int, tuple[float, int]] = {}

    def add(self, choice: DrawnChoice) -> None:
        """Keep a decision."""
        self._drawn[choice.cycle] = choice
        trim(self._drawn, MOST_CHOICES)

    def earned(self, cycle: int, total: float, revision: int) -> None:
        """Keep what the decision of this cycle earned, by that revision of its experience."""
        if cycle in self._drawn:
            self._earned[cycle] = total, revision
            trim(self._earned, MOST_CHOICES)

    def paid(self) -> list[tuple[DrawnChoice, float, int]]:
        """The decisions that were scored, each with its total and the revision of that, the oldest first."""
        return [(drawn, *self._earned[cycle]) for cycle, drawn in self._drawn.items() if cycle in self._earned]

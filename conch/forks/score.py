"""The scores of a candidate: *format*, *execution* and *goal*, by the rules of an act. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Final, NamedTuple

from conch.config import RewardSettings
from conch.rewards import builtin_scores, total_reward
from conch_schemas import ActionTaken, Score, ScoredPart

COMPONENTS: Final = ("format", "execution", "goal")
"""Those that follow from the candidate alone. *needs*, *exploration* and others rest on the agent's history."""
VERSION: Final = "1"
"""Version of how candidates are executed and scored, beside that of the rules: another one makes other forks."""


class ForkTotal(NamedTuple):
    """The scores of a candidate, and what they come to."""

    scores: tuple[Score, ...]
    total: float
    coverage: float


def weights_of(scores: Iterable[ScoredPart]) -> dict[str, float]:
    """The weights by which the recorded act's parts count, of those that a candidate is scored by."""
    return {score.component: score.weight for score in scores if score.component in COMPONENTS}


def score_candidate(
    act: ActionTaken, settings: RewardSettings, weights: Mapping[str, float], unknown: Mapping[str, str]
) -> ForkTotal:
    """The scores of a candidate as if it had been the act. `unknown`: by component, why it cannot be told; these are
    not applicable."""
    scores = tuple(
        score if (why := unknown.get(score.component)) is None else _not_applicable(score, why)
        for score in builtin_scores(act, settings)
    )
    whole = fsum(weights.get(name, 0.0) for name in COMPONENTS)
    scored = fsum(weights.get(score.component, 0.0) for score in scores if score.status == "scored")
    total = total_reward({score.component: score.value for score in scores}, weights)
    return ForkTotal(scores, total, min(1.0, scored / whole) if whole else 0.0)


def _not_applicable(score: Score, why: str) -> Score:
    return score.model_copy(update={"value": None, "status": "not_applicable", "explanation": why})

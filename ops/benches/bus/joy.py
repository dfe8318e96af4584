"""The stage's consumer, the README's: an act in, its reward out. Every side runs this function on these models."""

from __future__ import annotations

from conch import follow
from conch_schemas import ActionTaken, RewardAssigned, Score


def joy(action: ActionTaken) -> RewardAssigned:
    """1 for an act that succeeded, else 0."""
    value = 1.0 if action.outcome.status == "success" else 0.0
    score = Score(component="joy", value=value, range=(0, 1), status="scored", scorer="joy", version="1")
    return follow(action, RewardAssigned, consumer="joy", version="1", scorer="joy", scores=(score,))

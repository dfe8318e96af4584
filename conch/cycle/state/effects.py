"""Which acts can have changed the workspace, and so a goal's measure."""

from __future__ import annotations

from conch.actions import effect_of
from conch_schemas import Action, OutcomeStatus


def touched(action: Action, status: OutcomeStatus) -> bool:
    """Whether a goal's check can come out otherwise after this act than before it.

    By the declared effect: `workspace`, or none declared.
    """
    return status not in ("none", "blocked") and effect_of(action) in ("workspace", None)

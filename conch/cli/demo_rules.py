"""What `conch demo learn` pays beside the form of a reply, and what its gate holds out."""

from __future__ import annotations

from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.6, range=(-1.0, 1.0))
def acts(action: ActionTaken) -> float:
    """1 for a call of a tool that ended well, else -1."""
    return 1.0 if action.outcome.status == "success" else -1.0


@rule(held_out=True)
def unharmed(action: ActionTaken) -> float:
    """1 for a call that ended well and changed nothing, else 0. It is never paid and never trained on."""
    return float(action.outcome.status == "success" and (action.effect is None or action.effect.kind != "change"))

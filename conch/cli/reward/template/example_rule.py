"""A rule: one pure function of an act."""

from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.1, range=(0.0, 1.0), version="1")
def example_rule(action: ActionTaken) -> float | None:
    """1.0 for a tool call of up to 60 characters that worked, 0.2 at the least for a longer one; 0.0 for the rest."""
    if not action.raw:
        return None
    if action.action.kind != "TOOL" or action.outcome.status != "success":
        return 0.0
    return max(0.2, min(1.0, (160 - action.raw_length) / 100))

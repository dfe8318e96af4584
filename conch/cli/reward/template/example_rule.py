"""A rule: one pure function of an act."""

from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.1, range=(0.0, 1.0), version="1")
def example_rule(action: ActionTaken) -> float | None:
    """1.0 for a reply of up to 60 characters, less the longer it is, 0.0 from 160 on."""
    if not action.raw:
        return None
    return max(0.0, min(1.0, (160 - action.raw_length) / 100))

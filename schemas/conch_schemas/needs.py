"""The event of changed needs. Satisfaction: 0 starved to 1 satisfied."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Unit
from conch_schemas.envelope import Event, Value
from conch_schemas.reward import Score


class NeedChange(Value):
    """One cause of a change of satisfaction."""

    need: str
    delta: float
    """Nominal change; clamping may reduce it."""
    why: str
    """The event's name, e.g. `tool_succeeded`, `mistake`, `time`."""


class NeedsChanged(Event):
    """Satisfaction before and after one event, and the score of the change."""

    TYPE: ClassVar = "needs.changed"
    type: Literal["conch.v1.needs.changed"] = "conch.v1.needs.changed"
    before: dict[str, Unit]
    """After the drift of time and the events from outside (a resource low, or recovered), before this event's own
    effects."""
    after: dict[str, Unit]
    drift: dict[str, float] = Field(default_factory=dict)
    """Drift of time before `before`; it is not scored."""
    changes: tuple[NeedChange, ...] = ()
    """Causes in the order of their application: events from outside, which are not scored, then the event's own."""
    most_pressing: str
    score: Score | None = None
    """The part *needs*, for an action; None for other events."""
    beside: tuple[Score, ...] = ()
    """`starving`, for an action: a further score for the total."""

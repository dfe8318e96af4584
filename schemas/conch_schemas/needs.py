"""Needs: satisfaction, 0 starved to 1 satisfied."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Unit
from conch_schemas.envelope import Event, Value
from conch_schemas.reward import Score


class NeedChange(Value):
    """One cause of a change."""

    need: str
    delta: float
    """Asked for; clamping may leave less of it."""
    why: str
    """The event's name, e.g. `tool_succeeded`, `mistake`, `time`."""


class NeedsChanged(Event):
    """Satisfaction before and after one fact, and what it is worth."""

    TYPE: ClassVar = "needs.changed"
    type: Literal["conch.v1.needs.changed"] = "conch.v1.needs.changed"
    before: dict[str, Unit]
    """After the drift of time, before this fact's own events."""
    after: dict[str, Unit]
    drift: dict[str, float] = Field(default_factory=dict)
    """What time took ahead of `before`; neither pays nor costs."""
    changes: tuple[NeedChange, ...] = ()
    most_pressing: str
    score: Score | None = None
    """The part *needs*, for an action; None for other facts."""

"""What a watcher saw in the rewards."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event

AlarmKind = Literal["dominance", "collapse", "length_drift", "falling_entropy", "held_out"]


class AlarmRaised(Event):
    """A watched figure went beyond its bound, or came back. Said when that changes, never again and again."""

    TYPE: ClassVar = "alarm.raised"
    type: Literal["conch.v1.alarm.raised"] = "conch.v1.alarm.raised"
    alarm: AlarmKind
    component: str | None = None
    """Of which component, where it is one's."""
    active: bool
    """False: it is over."""
    begun: int | None = Field(default=None, ge=0)
    """Cycle of the act at which it began."""
    value: float
    """The figure, as of this act."""
    threshold: float
    """The bound: beyond it the alarm begins. It is over once the figure has come back behind it by a fifth."""
    window: int = Field(ge=1)
    """Experiences that the figure is taken over."""
    what: str
    """One sentence."""

"""The event of an alarm about the rewards."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event

AlarmKind = Literal["dominance", "collapse", "length_drift", "falling_entropy", "held_out"]


class AlarmRaised(Event):
    """A watched statistic went beyond its bound, or came back. Published only when that changes."""

    TYPE: ClassVar = "alarm.raised"
    type: Literal["conch.v1.alarm.raised"] = "conch.v1.alarm.raised"
    alarm: AlarmKind
    component: str | None = None
    """The component concerned, if it is a single one."""
    active: bool
    """False: the alarm has ended."""
    begun: int | None = Field(default=None, ge=0)
    """Cycle of the act at which it began."""
    value: float
    """The statistic, as of this act."""
    threshold: float
    """The bound: beyond it the alarm begins. It ends once the statistic has come back behind it by a fifth."""
    window: int = Field(ge=1)
    """Experiences that the statistic is taken over."""
    what: str
    """One sentence."""

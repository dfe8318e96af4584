"""Settings of the agent's needs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from conch.config.model.section import WEIGHT_TOLERANCE, SettingsSection


class NeedSettings(SettingsSection):
    """One need: its priority, start, drift and events."""

    priority: Annotated[float, Field(ge=0, le=1)]
    """Weight of the need, 0..1; the priorities of all needs sum to 1."""
    start: Annotated[float, Field(ge=0, le=1)]
    """Satisfaction of a new agent, 0..1."""
    drift: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Change of satisfaction per cycle by time alone, −1..1."""
    events: dict[str, Annotated[float, Field(ge=-1, le=1)]] = Field(default_factory=dict)
    """Change of satisfaction per event's name, −1..1."""


class NeedsSettings(SettingsSection):
    """The agent's needs, and how a change of satisfaction is rewarded."""

    preset: Literal["balanced", "learning", "production", "creative"] = "balanced"
    """Preset of priorities for the four default needs."""
    mode: Literal["counted", "delta"] = "counted"
    """counted: priority × (+0.5 improved, −0.3 worsened); delta: priority × change."""
    own: dict[str, NeedSettings] | None = None
    """Needs of your own instead of the four, by name; their priorities sum to 1."""

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        if self.own is not None and abs(sum(need.priority for need in self.own.values()) - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError("the priorities of needs.own must sum to 1")
        return self

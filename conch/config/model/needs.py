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


Level = Annotated[float, Field(ge=0, le=1)]
Change = Annotated[float, Field(ge=-1, le=1)]
Deltas = dict[Literal["sustainability", "reliability", "curiosity", "excellence"], Change]
"""Change of satisfaction by need, −1..1; a need that is not named does not change."""


class NeedStartSettings(SettingsSection):
    """Satisfaction of the four default needs in a new agent."""

    sustainability: Level = 0.7
    """0..1."""
    reliability: Level = 0.7
    """0..1."""
    curiosity: Level = 0.5
    """0..1."""
    excellence: Level = 0.6
    """0..1."""


class NeedDriftSettings(SettingsSection):
    """Change of satisfaction of the four default needs per cycle, by time alone."""

    sustainability: Change = 0.0
    """−1..1 per cycle."""
    reliability: Change = 0.0
    """−1..1 per cycle."""
    curiosity: Change = -0.02
    """−1..1 per cycle."""
    excellence: Change = -0.01
    """−1..1 per cycle."""


class NeedEventSettings(SettingsSection):
    """Change of satisfaction of the four default needs by each event, −1..1."""

    user_helped: Deltas = Field({"reliability": 0.1, "excellence": 0.1})
    """A message was answered."""
    user_satisfied: Deltas = Field({"reliability": 0.15, "excellence": 0.15, "curiosity": 0.05})
    """A person scored an act above 0."""
    error: Deltas = Field({"reliability": -0.2, "sustainability": -0.1})
    """A tool failed, timed out, or was blocked."""
    mistake: Deltas = Field({"reliability": -0.25, "excellence": -0.1})
    """A reply was not valid."""
    learned_something: Deltas = Field({"curiosity": 0.2, "excellence": 0.05})
    """A note or lesson was written from two or more acts."""
    new_topic: Deltas = Field({"curiosity": -0.15})
    """A message or goal came whose words are new."""
    resource_low: Deltas = Field({"sustainability": -0.3})
    """The tokens of the hour or the disk fell below a tenth; applied with the drift, not scored."""
    resource_recovered: Deltas = Field({"sustainability": 0.2})
    """They rose above three tenths again; applied with the drift, not scored."""
    # Without the share of reliability a run of errors would lower it for good: nothing else restores it every day.
    tool_succeeded: Deltas = Field({"excellence": 0.15, "reliability": 0.05})
    """A tool succeeded, and had an effect where that is measured."""
    new_information: Deltas = Field({"curiosity": 0.1})
    """An act brought new information."""
    reflected: Deltas = Field({"curiosity": 0.15})
    """The agent chose REFLECT."""
    rested: Deltas = Field({"sustainability": 0.2})
    """The agent chose DO_NOTHING; once in a row."""
    slept: Deltas = Field({"sustainability": 0.2})
    """It slept for a minute or longer; of a shorter sleep, a share of it. Applied at the wake, not scored."""


class StarvingSettings(SettingsSection):
    """Starvation of needs: an act that relieves none earns only a share of a positive total."""

    level: Level = 0.1
    """Satisfaction at or below which a need starves, 0..1."""
    factor: Level = 0.3
    """Share of a positive total that is left while a need starves and the act raises no starving need, 0..1."""


class NeedsSettings(SettingsSection):
    """The agent's needs, and how a change of satisfaction is rewarded."""

    preset: Literal["balanced", "learning", "production", "creative"] = "balanced"
    """Preset of priorities for the four default needs."""
    mode: Literal["counted", "delta"] = "counted"
    """counted: priority × (`improved` or `worsened`); delta: priority × change."""
    improved: Level = 0.5
    """What a need that improved counts in the mode counted, 0..1."""
    worsened: Annotated[float, Field(ge=-1, le=0)] = -0.3
    """What a need that worsened counts in the mode counted, −1..0."""
    start: NeedStartSettings = NeedStartSettings()
    """Satisfaction of the four default needs in a new agent."""
    drift: NeedDriftSettings = NeedDriftSettings()
    """Change of the four default needs per cycle, by time alone."""
    events: NeedEventSettings = NeedEventSettings()
    """Change of the four default needs by each event; a table given for an event replaces that event's."""
    starving: StarvingSettings = StarvingSettings()
    """Level at which a need starves, and the share of the total that is left then."""
    own: dict[str, NeedSettings] | None = None
    """Needs of your own instead of the four, by name, with their own start, drift and events; priorities sum to 1."""

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        if self.own is not None and abs(sum(need.priority for need in self.own.values()) - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError("the priorities of needs.own must sum to 1")
        return self

"""The table of needs: the four default ones with their presets, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from conch.config import NeedEventSettings, NeedSettings, NeedsSettings
from conch.errors import ConfigError
from conch.text import instead
from conch_schemas import NeedChange

_PRESETS: Final = {
    "balanced": (0.25, 0.30, 0.25, 0.20),
    "learning": (0.20, 0.20, 0.40, 0.20),
    "production": (0.30, 0.40, 0.15, 0.15),
    "creative": (0.15, 0.20, 0.30, 0.35),
}
"""Priorities of sustainability, reliability, curiosity, excellence."""

EVENTS: Final = tuple(NeedEventSettings.model_fields)
"""The names of the events that change needs."""


@dataclass(frozen=True)
class NeedsTable:
    """The settings, arranged for fast lookup by the fold."""

    needs: Mapping[str, NeedSettings]
    priorities: Mapping[str, float]
    changes: Mapping[str, tuple[NeedChange, ...]]
    """Each event's changes of satisfaction, in the order of the needs."""
    settings: NeedsSettings
    """Mode and numbers of the reward, and of starvation."""
    pace: float = 1.0
    """Seconds that count as a cycle while the agent sleeps."""


def table_of(settings: NeedsSettings, interval: float = 1.0) -> NeedsTable:
    """The table for these settings; `interval`: seconds between two cycles. Raises what `needs_of` raises."""
    needs = needs_of(settings)
    changes = {
        event: tuple(
            NeedChange(need=name, delta=delta, why=event)
            for name, need in needs.items()
            if (delta := need.events.get(event))
        )
        for event in EVENTS
    }
    priorities = {name: need.priority for name, need in needs.items()}
    return NeedsTable(needs, priorities, changes, settings, pace=max(interval, 1.0))


def needs_of(settings: NeedsSettings) -> Mapping[str, NeedSettings]:
    """Every need by name, in a fixed order, with priority, start, drift and events.

    Raises ConfigError for a user-defined need with an unknown event.
    """
    if settings.own is None:
        return _four(settings)
    for name, need in settings.own.items():
        for event in need.events:
            if event not in EVENTS:
                there = instead(event, EVENTS)
                raise ConfigError(f"needs.own.{name}.events names {event}, which never happens; {there}")
    return dict(settings.own)


def priorities_of(settings: NeedsSettings) -> dict[str, float]:
    """Priority by need; they sum to 1."""
    return {name: need.priority for name, need in needs_of(settings).items()}


def _four(settings: NeedsSettings) -> dict[str, NeedSettings]:
    start, drift = settings.start.model_dump(), settings.drift.model_dump()
    events: dict[str, dict[str, float]] = settings.events.model_dump()
    return {
        name: NeedSettings(
            priority=priority,
            start=start[name],
            drift=drift[name],
            events={event: deltas[name] for event, deltas in events.items() if name in deltas},
        )
        for name, priority in zip(start, _PRESETS[settings.preset], strict=True)
    }

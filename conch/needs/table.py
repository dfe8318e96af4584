"""The table of needs: the four default ones with their presets, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from conch.config import NeedSettings, NeedsSettings
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

_START: Final = {"sustainability": 0.7, "reliability": 0.7, "curiosity": 0.5, "excellence": 0.6}
_DRIFT: Final = {"curiosity": -0.02, "excellence": -0.01}

EVENTS: Final[Mapping[str, Mapping[str, float]]] = {
    "user_helped": {"reliability": 0.1, "excellence": 0.1},
    "user_satisfied": {"reliability": 0.15, "excellence": 0.15, "curiosity": 0.05},
    "error": {"reliability": -0.2, "sustainability": -0.1},
    "mistake": {"reliability": -0.25, "excellence": -0.1},
    "learned_something": {"curiosity": 0.2, "excellence": 0.05},
    "new_topic": {"curiosity": -0.15},
    "resource_low": {"sustainability": -0.3},
    "resource_recovered": {"sustainability": 0.2},
    # Without the share of reliability a run of errors would lower it for good: nothing else restores it every day.
    "tool_succeeded": {"excellence": 0.15, "reliability": 0.05},
    "new_information": {"curiosity": 0.1},
    "reflected": {"curiosity": 0.15},
    "rested": {"sustainability": 0.2},
}
"""Change of satisfaction per event and need, for the four needs by default."""


@dataclass(frozen=True)
class NeedsTable:
    """The settings, arranged for fast lookup by the fold."""

    needs: Mapping[str, NeedSettings]
    priorities: Mapping[str, float]
    changes: Mapping[str, tuple[NeedChange, ...]]
    """Each event's changes of satisfaction, in the order of the needs."""
    mode: Literal["counted", "delta"]


def table_of(settings: NeedsSettings) -> NeedsTable:
    """The table for these settings. Raises what `needs_of` raises."""
    needs = needs_of(settings)
    changes = {
        event: tuple(
            NeedChange(need=name, delta=delta, why=event)
            for name, need in needs.items()
            if (delta := need.events.get(event))
        )
        for event in EVENTS
    }
    return NeedsTable(needs, {name: need.priority for name, need in needs.items()}, changes, settings.mode)


def needs_of(settings: NeedsSettings) -> Mapping[str, NeedSettings]:
    """Every need by name, in a fixed order, with priority, start, drift and events.

    Raises ConfigError for a user-defined need with an unknown event.
    """
    if settings.own is None:
        return _default(settings.preset)
    for name, need in settings.own.items():
        for event in need.events:
            if event not in EVENTS:
                there = instead(event, EVENTS)
                raise ConfigError(f"needs.own.{name}.events names {event}, which never happens; {there}")
    return dict(settings.own)


def priorities_of(settings: NeedsSettings) -> dict[str, float]:
    """Priority by need; they sum to 1."""
    return {name: need.priority for name, need in needs_of(settings).items()}


@cache
def _default(preset: str) -> Mapping[str, NeedSettings]:
    return {
        name: NeedSettings(
            priority=priority,
            start=_START[name],
            drift=_DRIFT.get(name, 0.0),
            events={event: deltas[name] for event, deltas in EVENTS.items() if name in deltas},
        )
        for name, priority in zip(_START, _PRESETS[preset], strict=True)
    }

"""The last reading of each sensor, as the agent remembers it and as text for prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from conch.config.model import MOST_SENSES, SenseSettings
from conch.minds import SensorValue
from conch.text import safe_text
from conch_schemas import SenseMeasured, SenseValue

SHOWN_TEXT = 200
"""Characters of a measured text that are shown."""
UNCONFIGURED = SenseSettings(topic="-")
"""Settings for a sensor that has none, as its publisher is outside the configuration."""


class SensorReading(BaseModel):
    """The last reading of a sensor: value, unit and time of receipt."""

    model_config = ConfigDict(frozen=True)

    value: SenseValue
    unit: str
    received: float
    """Seconds since the epoch, by the receiver's clock."""
    kept: bool


def heard(known: Mapping[str, SensorReading], event: SenseMeasured) -> dict[str, SensorReading]:
    """The readings after one has arrived. Beyond MOST_SENSES, the one that was silent longest is dropped."""
    last = SensorReading(value=event.value, unit=event.unit, received=event.received.timestamp(), kept=event.kept)
    senses = {name: word for name, word in known.items() if name != event.sense} | {event.sense: last}
    return dict(list(senses.items())[-MOST_SENSES:])


def perceived(
    known: Mapping[str, SensorReading], settings: Mapping[str, SenseSettings], now: float
) -> tuple[SensorValue, ...]:
    """The readings as of `now` (seconds since the epoch), by sensor name, including stale ones."""
    return tuple(_sense(name, known[name], settings.get(name, UNCONFIGURED), now) for name in sorted(known))


def _sense(name: str, word: SensorReading, settings: SenseSettings, now: float) -> SensorValue:
    age = max(0.0, now - word.received)
    return SensorValue(name, word.value, word.unit, age, word.kept, stale=age > settings.max_age)


def in_words(sense: SensorValue) -> str:
    """`kitchen_temperature: 21.5 °C, 3 s old`: one harmless line."""
    unit = f" {sense.unit}" if sense.unit else ""
    age = f"heard {_span(sense.age)} ago, measured before" if sense.kept else f"{_span(sense.age)} old"
    stale = ", too old to tell" if sense.stale else ""
    return safe_text(f"{sense.name}: {_plain(sense.value)}{unit}, {age}{stale}", one_line=True)


def _plain(value: SenseValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value[:SHOWN_TEXT], ensure_ascii=False) if isinstance(value, str) else f"{value:.10g}"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"

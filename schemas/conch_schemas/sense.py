"""The event of a sensor reading."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StrictBool

from conch_schemas.envelope import Event

SENSE_PATTERN = r"^[a-z][a-z0-9_]{0,47}$"
"""A sensor's name: a word that a thought can contain."""
MOST_TEXT = 1024
"""Most bytes of a measured text, UTF-8."""


def _short(text: str) -> str:
    if len(text.encode()) > MOST_TEXT:
        raise ValueError(f"a measured text has at most {MOST_TEXT} bytes")
    return text


SenseValue = StrictBool | float | Annotated[str, AfterValidator(_short)]


class SenseMeasured(Event):
    """A sensor reading for the agent."""

    TYPE: ClassVar = "sense.measured"
    type: Literal["conch.v1.sense.measured"] = "conch.v1.sense.measured"
    sense: str = Field(pattern=SENSE_PATTERN)
    """The sensor's name."""
    value: SenseValue
    unit: str = Field(default="", max_length=32)
    """Unit of a number; empty: none."""
    topic: str = ""
    """Origin: an MQTT topic, or another sender's own name for it."""
    received: datetime
    """Time of receipt, by the receiver's clock, UTC."""
    kept: bool = False
    """Whether the broker had retained it: the time of measurement is unknown, at the latest `received`."""

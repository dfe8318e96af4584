"""What the world outside says: sensors."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StrictBool

from conch_schemas.envelope import Event

SENSE_PATTERN = r"^[a-z][a-z0-9_]{0,47}$"
"""A sense's name is a word that a thought can use."""
MOST_TEXT = 1024
"""Bytes of a measured text at most, UTF-8."""


def _short(text: str) -> str:
    if len(text.encode()) > MOST_TEXT:
        raise ValueError(f"a measured text has at most {MOST_TEXT} bytes")
    return text


SenseValue = StrictBool | float | Annotated[str, AfterValidator(_short)]


class SenseMeasured(Event):
    """A sensor told the agent something."""

    TYPE: ClassVar = "sense.measured"
    type: Literal["conch.v1.sense.measured"] = "conch.v1.sense.measured"
    sense: str = Field(pattern=SENSE_PATTERN)
    """The sense's name."""
    value: SenseValue
    unit: str = Field(default="", max_length=32)
    """Of a number; empty: none."""
    topic: str = ""
    """Where it was said: an MQTT topic, or another sender's own name of it."""
    received: datetime
    """When it came in, by the receiver's clock, UTC."""
    kept: bool = False
    """Whether the broker had kept it (retained): when it was measured, nobody knows; not after `received`."""

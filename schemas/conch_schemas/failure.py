"""The event of a dead letter."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event


class ConsumerFailed(Event):
    """A dead letter: an event that a consumer could not handle."""

    TYPE: ClassVar = "consumer.failed"
    type: Literal["conch.v1.consumer.failed"] = "conch.v1.consumer.failed"
    consumer: str
    version: str
    letter_subject: str
    """The subject of the event that failed."""
    letter_seq: int = Field(ge=1)
    """Its sequence in the stream."""
    letter: str
    """Its bytes, base64, if at most 64 KiB; empty otherwise (the stream has them)."""
    reason: str
    """One sentence."""
    tries: int = Field(ge=0)
    """Attempts at handling it; 0: it could not be decoded."""

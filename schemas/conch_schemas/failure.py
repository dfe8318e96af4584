"""Dead letters."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event


class ConsumerFailed(Event):
    """An event that a consumer could not handle: its dead letter."""

    TYPE: ClassVar = "consumer.failed"
    type: Literal["conch.v1.consumer.failed"] = "conch.v1.consumer.failed"
    consumer: str
    version: str
    letter_subject: str
    """The subject of the event that failed."""
    letter_seq: int = Field(ge=1)
    """Its place in the stream."""
    letter: str
    """Its bytes, base64, if at most 64 KiB; empty otherwise (the stream has it)."""
    reason: str
    """One sentence."""
    tries: int = Field(ge=0)
    """0: it could not be decoded and was not tried."""

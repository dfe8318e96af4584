"""The events of messages between people and the agent."""

from __future__ import annotations

from typing import ClassVar, Literal

from conch_schemas.envelope import Event


class MessageReceived(Event):
    """A person sent the agent a message."""

    TYPE: ClassVar = "message.received"
    type: Literal["conch.v1.message.received"] = "conch.v1.message.received"
    text: str
    sender: str = "user"


class MessageSent(Event):
    """The agent answered with the tool `reply`."""

    TYPE: ClassVar = "message.sent"
    type: Literal["conch.v1.message.sent"] = "conch.v1.message.sent"
    text: str
    answers: str | None = None
    """The id of the `message.received` that this answers."""

"""The events of an act that waits for a person's approval: asked for, approved, denied."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from conch_schemas.cycle import DecidedReply
from conch_schemas.envelope import Event


class ActAsked(DecidedReply):
    """The agent wants to do this act and waits for a person's approval. Stored before `action.decided`."""

    TYPE: ClassVar = "act.asked"
    type: Literal["conch.v1.act.asked"] = "conch.v1.act.asked"
    why: str
    """The rule of `tools.policy` that asks, in a sentence."""
    until: datetime
    """When the act is denied if no decision has come, UTC."""
    message: str | None = None
    """Id of the message that waited for an answer when the act was decided; None: none did."""


class ActApproved(Event):
    """A person approved the act that waits. Of several decisions on one act the first on the stream counts; an approval
    whose time is after the act's `until` does not count."""

    TYPE: ClassVar = "act.approved"
    type: Literal["conch.v1.act.approved"] = "conch.v1.act.approved"
    by: Literal["user"] = "user"
    why: str = ""
    """The person's reason; empty: none was given."""


class ActDenied(Event):
    """The act that waits is not done: a person denied it, or no decision came in time."""

    TYPE: ClassVar = "act.denied"
    type: Literal["conch.v1.act.denied"] = "conch.v1.act.denied"
    by: Literal["user", "timeout"] = "user"
    """`timeout`: no decision came until `until`."""
    why: str = ""
    """The reason; empty: none was given."""

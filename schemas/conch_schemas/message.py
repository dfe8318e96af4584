"""The events of messages between people and the agent."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event

SESSION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""The id of a session: 1 to 128 letters, digits, `.`, `_`, `:` and `-`, the first a letter or a digit."""

Session = Annotated[str, Field(pattern=SESSION_PATTERN)]
Rating = Literal["satisfied", "unsatisfied", "corrected", "stop"]


class MessageReceived(Event):
    """A person sent the agent a message."""

    TYPE: ClassVar = "message.received"
    type: Literal["conch.v1.message.received"] = "conch.v1.message.received"
    text: str
    sender: str = "user"
    session: Session | None = None
    """The conversation that it belongs to; None: it stands alone."""


class MessageSent(Event):
    """The agent answered with the tool `reply`."""

    TYPE: ClassVar = "message.sent"
    type: Literal["conch.v1.message.sent"] = "conch.v1.message.sent"
    text: str
    answers: str | None = None
    """The id of the `message.received` that this answers."""
    session: Session | None = None
    """The conversation of the message that this answers; None: that message stands alone."""


class AnswerRated(Event):
    """A person rated an answer of the agent. Its action and its cycle are those of the act that answered."""

    TYPE: ClassVar = "answer.rated"
    type: Literal["conch.v1.answer.rated"] = "conch.v1.answer.rated"
    message: str
    """The id of the `message.received` that the rated answer answers."""
    rating: Rating
    """`satisfied`, `unsatisfied`; `corrected`: `text` is the answer that would have been right; `stop`: the person
    suggests that the agent stops what it does."""
    text: str = ""
    """The reason, or the corrected answer."""
    session: Session | None = None
    """The conversation of the message; None: that message stands alone."""

"""The protocol of a constraint's form: fields of a request, and how its reply is read."""

from __future__ import annotations

from typing import Protocol

from pydantic import JsonValue

from conch.actions import Registry
from conch.minds.replies.reply import StreamedReply
from conch_schemas import Constraint

RequestFields = dict[str, JsonValue]


class ConstraintForm(Protocol):
    """One way in which an endpoint holds a reply to an action."""

    field: str
    """The field of the request that holds the constraint; it names the form."""
    kind: Constraint
    """What the reply is held to, as it is recorded."""

    def fields(self, registry: Registry, longest: int | None) -> RequestFields:
        """The fields of a request. `longest`: most characters of each text of the reply, where the form has a limit;
        None: as many as the tokens allow."""
        ...

    def begun(self, reply: StreamedReply, text: str) -> bool:
        """Whether a reply that was cut kept to the constraint as far as it came. `text`: its content without
        reasoning."""
        ...

    def read(self, reply: StreamedReply, text: str, registry: Registry) -> str:
        """The reply in the grammar of the one parser. `text`: its content without reasoning; content that is not of
        this form is returned as it is."""
        ...

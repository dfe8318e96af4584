"""The event of a removal at a person's request."""

from __future__ import annotations

from typing import ClassVar, Literal

from conch_schemas.envelope import Event
from conch_schemas.witness import Mark

FORGOTTEN_REASONING = "The words were removed at a person's request."
"""The reasoning of a mark of which the words were removed."""


class PersonForgotten(Event):
    """Data of a person was removed: from the store, the stream and the home. It holds ids and hashes, and no words.

    A large removal is told in several parts.
    """

    TYPE: ClassVar = "person.forgotten"
    type: Literal["conch.v1.person.forgotten"] = "conch.v1.person.forgotten"
    request: str
    """Id of the request, the same in all parts."""
    part: int = 0
    """Number of the part, from 0."""
    actions: tuple[str, ...] = ()
    """Ids of the actions that were removed with all their facts."""
    events: tuple[str, ...] = ()
    """Ids of the events that were erased on the stream."""
    marks: tuple[Mark, ...] = ()
    """What is left of the marks that were about them: each mark without its words, with the hash that it had."""

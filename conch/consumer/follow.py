"""`follow`: make an event that is caused by another event, with an id derived from it."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from conch.folds import valid
from conch_schemas import Event, consequence_id, passed_on

E = TypeVar("E", bound=Event)


def follow(cause: Event, kind: type[E], *, consumer: str, version: str, index: int = 0, **data: Any) -> E:
    """The event of `kind` that follows from `cause`, with `data` as its fields.

    Its id is derived from the cause, so the same cause handled twice gives the same id; `index` tells apart several
    events of one kind from one cause. An event that names a version of its own (`reward.assigned`) gets this one.
    It is a span of its own in the cause's trace; everything else of the envelope is the cause's. Raises
    ValidationError for data that are not of the kind.
    """
    if _names_a_version(kind):
        data["version"] = version
    identity = consequence_id(cause.id, consumer, version, kind, index)
    return valid(kind, **(envelope_after(cause, identity) | data))


def envelope_after(cause: Event, identity: str) -> dict[str, object]:
    """The envelope fields of an event that follows from `cause`: those that are equal, and those that refer to it."""
    return {
        "id": identity,
        "source": cause.source,
        "subject": cause.subject,
        "agent": cause.agent,
        "cycle": cause.cycle,
        "action_id": cause.action_id,
        "causation_id": cause.id,
        "traceparent": passed_on(cause.traceparent, identity),
        "policy": cause.policy,
    }


@cache
def _names_a_version(kind: type[Event]) -> bool:
    return "version" in kind.model_fields

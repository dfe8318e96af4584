"""How a consumer states the fact that follows from a fact."""

from __future__ import annotations

from typing import Any, TypeVar

from conch_schemas import Event, consequence_id, passed_on

E = TypeVar("E", bound=Event)

_INHERITED = ("source", "agent", "cycle", "action_id", "subject", "policy")


def follow(cause: Event, kind: type[E], *, consumer: str, version: str, index: int = 0, **data: Any) -> E:
    """The event of `kind` that follows from `cause`, with `data` as its fields.

    Its id is derived from the cause, so the same cause handled twice gives the same id; `index` tells apart several
    events of one kind from one cause. An event that names a version of its own (`reward.assigned`) gets this one.
    It is a span of its own in the cause's trace; everything else of the envelope is the cause's. Raises
    ValidationError for data that are not of the kind.
    """
    if "version" in kind.model_fields:
        data["version"] = version
    envelope = {name: getattr(cause, name) for name in _INHERITED}
    identity = consequence_id(cause.id, consumer, version, kind, index)
    envelope |= {"causation_id": cause.id, "traceparent": passed_on(cause.traceparent, identity)}
    return kind.model_validate({**envelope, "id": identity, **data})

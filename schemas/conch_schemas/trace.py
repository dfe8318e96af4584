"""Trace context (W3C, https://www.w3.org/TR/trace-context/): an action is a trace, and each of its events a span.

Both ids are derived, not random: the same event published twice has the same span.
"""

from __future__ import annotations

import re
from functools import lru_cache
from uuid import UUID, uuid5

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{4})-([0-9a-f]{12})")


def trace_of(action_id: str) -> str:
    """The trace id that all events of an action share: the action id, a UUID, without the hyphens, 32 hex digits."""
    return action_id.replace("-", "")


def traceparent_of(action_id: str, event_id: str) -> str:
    """The `traceparent` of an action's event: the trace is the action's, the span is derived from the event's id."""
    return f"00-{trace_of(action_id)}-{_span(event_id)}-01"


def passed_on(traceparent: str | None, event_id: str) -> str | None:
    """The `traceparent` of an event that follows from another: the same trace, a span of its own.

    None where the cause has none, or an invalid one: an invalid context is not passed on.
    """
    trace = trace_id(traceparent)
    return f"00-{trace}-{_span(event_id)}-01" if trace is not None else None


@lru_cache(maxsize=1024)
def trace_id(traceparent: str | None) -> str | None:
    """The trace id in a `traceparent`; None for an invalid one."""
    found = _TRACEPARENT.fullmatch(traceparent) if traceparent is not None else None
    return found[1] if found is not None else None


def _span(event_id: str) -> str:
    """The span id, 16 hexadecimal digits, never all zero: the half of the id that begins with its variant."""
    found = _UUID.fullmatch(event_id) or _UUID.fullmatch(str(uuid5(UUID(int=0), event_id)))
    assert found is not None
    return found[1] + found[2]

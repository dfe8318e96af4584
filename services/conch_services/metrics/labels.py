"""Bounded label values: few, and harmless, even when names come from outside."""

from __future__ import annotations

import re
from collections.abc import Iterable

from conch.text import safe_text
from conch_schemas import Event, trace_id

OTHER = "other"
"""The label for every name beyond the bound."""
LONGEST = 64
"""Characters of a label value."""

_ACTION = re.compile(r"[0-9A-Za-z-]{1,36}")


class BoundedLabels:
    """At most `most` distinct names, in the order they come; `known` ones are there from the start."""

    def __init__(self, most: int, known: Iterable[str] = ()) -> None:
        self._most = most
        self._shown = {name: name for name in known}

    def __call__(self, name: str) -> str:
        """The label for `name`: itself, cut and without control characters, or `other` when there are too many."""
        name = name[:LONGEST]
        if (shown := self._shown.get(name)) is not None:
            return shown
        if len(self._shown) >= self._most:
            return OTHER
        self._shown[name] = safe_text(name, one_line=True) or OTHER  # an empty label is no label to Prometheus
        return self._shown[name]


def exemplar_of(event: Event) -> dict[str, str]:
    """Cycle, action id and trace id of an event, as far as it has them and they look like it.

    At most 109 characters in all: OpenMetrics allows an exemplar 128, and prometheus-client raises beyond.
    """
    found = {}
    if event.cycle is not None and event.cycle < 2**63:
        found["cycle"] = str(event.cycle)
    if event.action_id is not None and _ACTION.fullmatch(event.action_id):
        found["action_id"] = event.action_id
    if (trace := trace_id(event.traceparent)) is not None:
        found["trace_id"] = trace
    return found

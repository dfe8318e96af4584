"""What an act brought, recognised again: one pure place for novelty, repetition and new information."""

from __future__ import annotations

import hashlib
import json

from conch.text import fingerprint
from conch_schemas import ActionTaken

SEEN_LIMIT = 1000
"""Distinct outputs that an agent remembers; the one met longest ago is forgotten first."""

_DIGITS = 8
"""Of a fingerprint, while it only tells seen from unseen: 1,000 of them mistake one new output in four million."""


def act_fingerprint(action: ActionTaken) -> str:
    """16 hex digits of skill, arguments and result: equal where they differ only in numbers, ids, times, case, space.

    Arguments are the call's, or the topic or reason, or the raw reply where it was not valid.
    """
    act = action.action
    said = json.dumps(act.args, sort_keys=True) if act.tool else act.text or ""
    parts = (
        act.skill,
        fingerprint(said if act.valid else action.raw),
        action.outcome.status,
        fingerprint(action.outcome.output.text),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def new_information(seen: tuple[str, ...], action: ActionTaken) -> tuple[tuple[str, ...], bool]:
    """Whether the act brought an output not in `seen`, and `seen` after it: at most SEEN_LIMIT, last met last.

    Only a valid tool call that succeeded brings any, and a blank output is none.
    """
    output = action.outcome.output.text
    if not (action.action.kind == "TOOL" and action.action.valid and action.outcome.status == "success"):
        return seen, False
    if not output.strip():
        return seen, False
    mark = fingerprint(output)[:_DIGITS]
    rest = tuple(other for other in seen if other != mark)
    return (*rest, mark)[-SEEN_LIMIT:], len(rest) == len(seen)

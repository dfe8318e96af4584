"""What an act brought, recognised again: one pure place for novelty, repetition and new information."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import BeforeValidator

from conch.text import fingerprint
from conch_schemas import ActionTaken

SEEN_LIMIT = 1000
"""Distinct outputs that an agent remembers; the one met longest ago is forgotten first."""

_DIGITS = 8
"""Of a fingerprint, while it only tells seen from unseen: 1,000 of them mistake one new output in four million."""


def _one_text(found: Any) -> Any:
    """States once held a list."""
    return "".join(map(str, found)) if isinstance(found, list | tuple) else found


Digests = Annotated[str, BeforeValidator(_one_text)]
"""Digests of one length, one behind the other, oldest first: as one text they are searched and copied at once."""


def holds(digests: Digests, digest: str) -> bool:
    """Whether `digest` is one of them."""
    return _place(digests, digest) >= 0


def with_new(digests: Digests, digest: str, limit: int) -> Digests:
    """The digests with one more as the last; at most `limit`, without the oldest."""
    return (digests + digest)[-limit * len(digest) :]


def with_latest(digests: Digests, digest: str) -> Digests:
    """The digests with one of them moved to the end."""
    at = _place(digests, digest)
    return digests[:at] + digests[at + len(digest) :] + digest


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


def new_information(seen: Digests, action: ActionTaken) -> tuple[Digests, bool]:
    """Whether the act brought an output not in `seen`, and `seen` after it: at most SEEN_LIMIT, last met last.

    Only a valid tool call that succeeded brings any, and a blank output is none.
    """
    output = action.outcome.output.text
    if not (action.action.kind == "TOOL" and action.action.valid and action.outcome.status == "success"):
        return seen, False
    if not output or output.isspace():
        return seen, False
    mark = fingerprint(output)[:_DIGITS]
    new = not holds(seen, mark)
    return with_new(seen, mark, SEEN_LIMIT) if new else with_latest(seen, mark), new


def _place(digests: Digests, digest: str) -> int:
    """Where it begins; −1: nowhere. The end of one digest and the start of the next are no digest."""
    at = digests.find(digest)
    while at > 0 and at % len(digest):
        at = digests.find(digest, at + 1)
    return at

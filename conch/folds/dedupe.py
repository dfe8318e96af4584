"""Fingerprints of acts and outputs, and bounded rings of them, for novelty, repetition and new information. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import BeforeValidator

from conch.folds.effect import brings_information, tool_result
from conch.text import fingerprint
from conch_schemas import ActionTaken

SEEN_LIMIT = 1000
"""Most distinct outputs remembered per agent; the one met longest ago is dropped first."""

_DIGITS = 8
"""Digits of a fingerprint used for membership: with 1,000 of them, one new output in four million is mistaken."""

NO_TARGET = "-" * 16
"""Stands in a ring of targets for an act without one."""


def _one_text(found: Any) -> Any:
    """Join the digests of an older state, which were stored as a list."""
    return "".join(map(str, found)) if isinstance(found, list | tuple) else found


Digests = Annotated[str, BeforeValidator(_one_text)]
"""Concatenated digests of one length, oldest first: as one text they are fast to search and copy."""


def holds(digests: Digests, digest: str) -> bool:
    """Whether `digest` is among them."""
    return _place(digests, digest) >= 0


def with_new(digests: Digests, digest: str, limit: int) -> Digests:
    """The digests with one appended; at most `limit`, dropping the oldest."""
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


def repetition_fingerprint(action: ActionTaken) -> str:
    """16 hex digits: equal for acts of the same kind, tool and arguments, to the letter, with results that differ only
    in numbers, ids, times, case, space."""
    act = action.action
    said = json.dumps([act.args, act.text], sort_keys=True) if act.valid else action.raw
    parts = (act.kind, act.tool or "", said, action.outcome.status, fingerprint(action.outcome.output.text))
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def target_digest(action: ActionTaken) -> str:
    """16 hex digits of tool × operation and target; NO_TARGET for an act without a measured target."""
    target = action.effect.target if action.effect is not None else None
    if target is None:
        return NO_TARGET
    return hashlib.sha256(f"{action.action.skill}\n{target}".encode(errors="surrogatepass")).hexdigest()[:16]


def new_information(seen: Digests, action: ActionTaken) -> tuple[Digests, bool]:
    """Whether the act brought new information, and `seen` after it: at most SEEN_LIMIT, the newest last.

    Only a valid tool call that succeeded can. What the agent measured decides; where it did not measure, an output that
    is not in `seen` is new, and a blank one is not.
    """
    if action.effect is not None:
        return seen, tool_result(action) in ("success", "look") and brings_information(action.effect)
    output = action.outcome.output.text
    if not (action.action.kind == "TOOL" and action.action.valid and action.outcome.status == "success"):
        return seen, False
    if not output or output.isspace():
        return seen, False
    mark = fingerprint(output)[:_DIGITS]
    new = not holds(seen, mark)
    return with_new(seen, mark, SEEN_LIMIT) if new else with_latest(seen, mark), new


def _place(digests: Digests, digest: str) -> int:
    """Its index, −1 if absent. A match across the boundary of two digests does not count."""
    at = digests.find(digest)
    while at > 0 and at % len(digest):
        at = digests.find(digest, at + 1)
    return at

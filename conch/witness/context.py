"""Digests of what a cycle said beside its act: the thought, the claims, the mind's messages, the reflection. Pure.

An act's event holds the digests of what came before it, so that its mark seals them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec

from conch.witness.canonical import values_hash
from conch_schemas import Claim, PromptMessage

THOUGHT: Final = "thought"
CLAIMS: Final = "claims"
MESSAGES: Final = "messages"
REFLECTION: Final = "reflection"
SAID_BEFORE: Final = (THOUGHT, CLAIMS, MESSAGES)
"""The kinds that an act's event may hold, `ActionTaken.context_sha256`."""


def context_digests(
    thought: str | None, claims: Sequence[Claim] | None, messages: Sequence[PromptMessage] | None
) -> dict[str, str]:
    """`ActionTaken.context_sha256` of a cycle; a kind of which nothing was said (None) is left out."""
    digests = {}
    if thought is not None:
        digests[THOUGHT] = text_digest(thought)
    if claims is not None:
        digests[CLAIMS] = values_hash([[claim.claim, claim.about, claim.verdict, claim.evidence] for claim in claims])
    if messages is not None:
        digests[MESSAGES] = values_hash([[message.role, message.content] for message in messages])
    return digests


def text_digest(text: str) -> str:
    """SHA-256 of a text as a canonical JSON list of one value, hexadecimal."""
    return values_hash([text])


def reflection_digest(reflection: str, ms: float) -> str:
    """SHA-256 of the canonical JSON list of a reflection and its milliseconds, hexadecimal."""
    return values_hash([reflection, ms])


def stored_digest(kind: str, body: str | bytes) -> str:
    """The digest of a stored row of context of this kind, as `context_digests` and `reflection_digest` have it; of any
    other kind that of its text. Raises ValueError, TypeError or LookupError for a row that is none."""
    if read := _READ.get(kind):
        return values_hash(read(msgspec.json.decode(body)))
    return text_digest(body if isinstance(body, str) else body.decode())


def _claim_values(rows: object) -> list[object]:
    claims = cast("list[dict[str, str]]", rows)
    return [[claim["claim"], claim["about"], claim["verdict"], claim["evidence"]] for claim in claims]


def _message_values(rows: object) -> list[object]:
    messages = cast("list[dict[str, str]]", rows)
    return [[message["role"], message["content"]] for message in messages]


def _reflection_values(row: object) -> list[object]:
    reflection, ms = cast("tuple[str, float]", row)
    return [reflection, ms]


_READ: Final[dict[str, Callable[[object], list[object]]]] = {
    CLAIMS: _claim_values,
    MESSAGES: _message_values,
    REFLECTION: _reflection_values,
}

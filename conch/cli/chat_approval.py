"""A person's decision, in a line of a conversation, on an act that waits for an approval. Pure."""

from __future__ import annotations

from typing import Literal

QUESTION = "approve it? y or n, then the reason if you have one: "
_DECISIONS: dict[str, Literal["approve", "deny"]] = {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}


def decision_in(line: str) -> tuple[Literal["approve", "deny"], str] | None:
    """The decision and its reason, empty where none is given; None: the line is no answer to QUESTION."""
    word, _, reason = line.strip().partition(" ")
    decision = _DECISIONS.get(word.rstrip(",.:;").lower())
    return None if decision is None else (decision, reason.strip())

"""The subject of conversation rules: messages, token counts and facts about them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

SHORT, LONG = 500, 2000
"""Completion tokens up to which the length costs nothing, and from which the score is 0."""
KEY_DIGITS: Final = 32


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: str
    """system, user, assistant or tool."""
    content: str


@dataclass(frozen=True)
class Trajectory:
    """One conversation, from its first message to its last. Rules read it and never change it."""

    messages: tuple[Message, ...]
    completion_tokens: tuple[int, ...] = ()
    """Tokens of each completion of the model, in order; empty: there was none, or they were not counted."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Further inputs of rules: the expected answer, the outcome of a tool, the columns of a data set."""


def cache_key(messages: Iterable[Message | Mapping[str, object]]) -> str:
    """32 hex digits that are equal for two conversations exactly when their roles and contents are the same, in order.

    The first of SHA-256 over `json.dumps([{"role", "content"} …], sort_keys=True)`. Other fields of a
    message (a time, a model) are ignored; a missing role or content counts as null.
    """
    told = [_told(message) for message in messages]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:KEY_DIGITS]


def length_penalty(trajectory: Trajectory) -> float:
    """Length score in [0, 1]: 1 up to 500 completion tokens in all, 0 from 2000, linear between. No completions: 1."""
    total = math.fsum(trajectory.completion_tokens)
    return min(1.0, max(0.0, (LONG - total) / (LONG - SHORT)))


def _told(message: Message | Mapping[str, object]) -> dict[str, object]:
    if isinstance(message, Message):
        return {"role": message.role, "content": message.content}
    return {"role": message.get("role"), "content": message.get("content")}

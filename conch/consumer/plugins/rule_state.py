"""The state that a rule carries from act to act: its own model, or the window of earlier acts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from conch.rules import RuleInfo
from conch_schemas import ActionTaken, encode

TEXT_LENGTHS = (1000, 300, 100)
"""Longest text of an earlier act, in characters: the first of these that brings the act under ACT_BYTES."""
ACT_BYTES = 8 * 1024
"""Longest earlier act, in bytes of JSON: fifty, with their quotes escaped once more, stay under the bus's 1 MiB."""
STATE_BYTES = 256 * 1024
"""Longest state of a rule, in bytes of JSON, for the same reason."""


class OwnRuleState(BaseModel):
    """A rule's own state, as JSON that only the rule's process can read."""

    text: str | None
    """None: there was no act yet."""


class RuleWindow(BaseModel):
    """The acts before the one to be scored, oldest first, as JSON."""

    acts: tuple[str, ...]


def carried_by(rule: RuleInfo) -> type[BaseModel] | None:
    """The model of what this rule carries; None: nothing."""
    return OwnRuleState if rule.stateful else RuleWindow if rule.window is not None else None


def at_first(rule: RuleInfo) -> BaseModel | None:
    """The rule's state before an agent's first act."""
    return OwnRuleState(text=None) if rule.stateful else RuleWindow(acts=()) if rule.window is not None else None


def after_act(before: Sequence[str], action: ActionTaken, window: int) -> RuleWindow:
    """The window for the act that follows `action`, of `window` acts."""
    return RuleWindow(acts=(*before, shortened(action))[-(window - 1) :])


def shortened(action: ActionTaken) -> str:
    """An act as JSON of at most ACT_BYTES, that still is an act: long texts keep their head and tail.

    One that is made of many short texts loses its arguments, goals' checks, memory context and names of tools.
    """
    for length in TEXT_LENGTHS:
        told = json.loads(encode(action))
        told["data"] = _shortened(told["data"], length)
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        if len(text.encode()) <= ACT_BYTES:
            return text
    told["data"] |= {"goals": [], "memory": [], "tools": []}
    told["data"]["action"]["args"] = {}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _shortened(value: Any, length: int) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(one, length) for key, one in value.items()}
    if isinstance(value, list):
        return [_shortened(one, length) for one in value]
    if not isinstance(value, str) or len(value) <= length:
        return value
    half = length // 2
    return f"{value[:half]}\n[… {len(value) - 2 * half} characters left out …]\n{value[-half:]}"

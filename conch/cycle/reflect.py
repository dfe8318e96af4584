"""Reflect: every so many cycles, what the last ones were worth."""

from __future__ import annotations

import time
from dataclasses import dataclass

from conch.cycle.prompts import reflecting
from conch.minds.protocol import Mind, Situation


@dataclass(frozen=True)
class Reflection:
    """What reflecting brought; empty in the cycles that do not."""

    text: str = ""
    ms: float = 0.0


async def reflect(mind: Mind, system: str, situation: Situation, every: int, max_tokens: int) -> Reflection:
    """A reflection in every `every`-th cycle. Raises ModelError when the mind has none."""
    if not every or (situation.cycle + 1) % every:
        return Reflection()
    began = time.perf_counter()
    completion = await mind.complete(reflecting(system, situation, max_tokens))
    return Reflection(completion.text.strip(), (time.perf_counter() - began) * 1000)

"""The reflect step: every so many cycles, the mind reviews the last ones."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from conch.cycle.prompts.build import PromptLimits
from conch.cycle.prompts.counted import counted_prompt
from conch.minds import Mind, Situation
from conch_schemas import Usage


@dataclass(frozen=True)
class ReflectionResult:
    """The reflection; empty in the cycles without one."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    ms: float = 0.0
    model: str = ""
    price: float | None = None
    """In `mind.currency`; None: unknown."""


def due(cycle: int, every: int) -> bool:
    """Whether this cycle reflects: every `every`-th does, with 0 none."""
    return every > 0 and (cycle + 1) % every == 0


async def reflect(mind: Mind, system: str, situation: Situation, limits: PromptLimits) -> ReflectionResult:
    """A reflection. Raises ModelError when the mind gives none."""
    began = time.perf_counter()
    completion = await mind.complete(await counted_prompt("reflect", system, situation, limits))
    ms = (time.perf_counter() - began) * 1000
    return ReflectionResult(completion.text.strip(), completion.usage, ms, completion.model, completion.cost)

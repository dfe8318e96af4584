"""The think step: asks the mind what the agent wants now, led by its most pressing need."""

from __future__ import annotations

from dataclasses import dataclass

from conch.cycle.prompts.build import PromptLimits, thinking
from conch.minds import Completion, Mind, Situation


@dataclass(frozen=True)
class ThoughtResult:
    """The thought of a cycle."""

    completion: Completion

    @property
    def text(self) -> str:
        """The thought's words."""
        return self.completion.text.strip()


async def think(mind: Mind, system: str, situation: Situation, limits: PromptLimits) -> ThoughtResult:
    """One thought. Raises ModelError when the mind gives none."""
    return ThoughtResult(await mind.complete(thinking(system, situation, limits)))

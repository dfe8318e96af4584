"""The think step: asks the mind what the agent wants now, led by its most pressing need."""

from __future__ import annotations

from dataclasses import dataclass

from conch.cycle.prompts.brief import task_of
from conch.cycle.prompts.build import PromptLimits
from conch.cycle.prompts.counted import counted_prompt
from conch.minds import Completion, Mind, Situation
from conch_schemas import Usage


@dataclass(frozen=True)
class ThoughtResult:
    """The thought of a cycle."""

    completion: Completion

    @property
    def text(self) -> str:
        """The thought's words."""
        return self.completion.text.strip()


async def think(mind: Mind, system: str, situation: Situation, limits: PromptLimits) -> ThoughtResult:
    """One thought. Raises ModelError when the mind gives none.

    A mind that is asked briefly is not asked: its thought is the task of the cycle, in this program's words.
    """
    if limits.is_brief:
        text = task_of(situation).text
        return ThoughtResult(Completion(text, finish_reason="stop", usage=Usage(), model=mind.model, ms=0.0))
    return ThoughtResult(await mind.complete(await counted_prompt("think", system, situation, limits)))

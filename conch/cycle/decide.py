"""The decide step: asks the mind for an action and parses the reply, once."""

from __future__ import annotations

from dataclasses import dataclass

from conch.actions import Registry, parse
from conch.cycle.prompts.build import PromptLimits, deciding
from conch.minds import Completion, Mind, Situation
from conch_schemas import Action, PromptMessage


@dataclass(frozen=True)
class DecisionResult:
    """The parsed decision: an intent that has not been run yet."""

    messages: tuple[PromptMessage, ...]
    completion: Completion
    action: Action


async def decide(
    mind: Mind, system: str, situation: Situation, registry: Registry, limits: PromptLimits
) -> DecisionResult:
    """One decision on the situation's thought. Raises ModelError when the mind gives none."""
    prompt = deciding(system, situation, limits)
    completion = await mind.complete(prompt)
    return DecisionResult(prompt.messages, completion, parse(completion.text, registry))

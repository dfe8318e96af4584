"""The decide step: asks the mind for an action and parses the reply, once."""

from __future__ import annotations

from dataclasses import dataclass

from conch.actions import Registry, parse
from conch.cycle.prompts.build import PromptLimits, deciding
from conch.minds import Completion, Mind, Situation
from conch_schemas import Action, PromptMessage

_ENDED = {
    "length": "the reply was cut off at its limit of tokens, mind.max_tokens",
    "refusal": "the model refused",
    "content_filter": "the endpoint's content filter ended the reply",
}
"""By finish_reason: what ended a reply that is no valid action."""


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
    return DecisionResult(prompt.messages, completion, _explained(parse(completion.text, registry), completion))


def _explained(action: Action, completion: Completion) -> Action:
    """An invalid action with the reason that the reply ended for, where that is why it is none."""
    why = _ENDED.get(completion.finish_reason)
    if action.valid or why is None:
        return action
    return action.model_copy(update={"reason": f"{why} ({action.reason})"})

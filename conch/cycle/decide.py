"""The decide step: asks the mind for an action and parses the reply, once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from conch.actions import Registry, parse
from conch.cycle.prompts.build import PromptLimits
from conch.cycle.prompts.counted import counted_prompt
from conch.minds import Completion, Mind, Prompt, Situation
from conch.text import well_formed
from conch_schemas import Action, Decoding

_ENDED = {
    "length": "the reply was cut off at its limit of tokens, mind.max_tokens",
    "refusal": "the model refused",
    "content_filter": "the endpoint's content filter ended the reply",
}
"""By finish_reason: what ended a reply that is no valid action."""


@dataclass(frozen=True)
class DecisionResult:
    """The parsed decision: an intent that has not been run yet."""

    prompt: Prompt
    completion: Completion
    action: Action
    decoding: Decoding


async def decide(
    mind: Mind, system: str, situation: Situation, registry: Registry, limits: PromptLimits
) -> DecisionResult:
    """One decision on the situation's thought. Raises ModelError when the mind gives none."""
    prompt = replace(await counted_prompt("decide", system, situation, limits), registry=registry)
    return await answered(mind, prompt, registry)


async def answered(mind: Mind, prompt: Prompt, registry: Registry) -> DecisionResult:
    """The decision on a prompt that is written. Raises ModelError when the mind gives none."""
    completion = await mind.complete(prompt)
    action = _explained(parse(completion.text, registry), completion)
    return DecisionResult(prompt, completion, action, _decoding(mind.kind, prompt, completion))


def _explained(action: Action, completion: Completion) -> Action:
    """An invalid action with the reason that the reply ended for, where that is why it is none."""
    why = _ENDED.get(completion.finish_reason)
    if action.valid or why is None:
        return action
    return action.model_copy(update={"reason": f"{why} ({action.reason})"})


def _decoding(kind: str, prompt: Prompt, reply: Completion) -> Decoding:
    """What is known of the reply's decoding: what the mind says of it, the digest of the prompt and the state's key."""
    known = reply.decoding or Decoding(
        engine=kind, model=reply.model, constraint="grammar" if reply.constrained else "free"
    )
    digest = known.prompt_sha256 or prompt_digest(prompt)
    return known.model_copy(
        update={
            "prompt_sha256": digest,
            "state_key": state_key(prompt.situation),
            "unread": reply.unread or None,
        }
    )


def prompt_digest(prompt: Prompt) -> str:
    """SHA-256 of the prompt's messages, as `Decoding.prompt_sha256` describes it."""
    said = [("system", prompt.system), *((message.role, message.content) for message in prompt.messages)]
    messages = [{"content": well_formed(content), "role": role} for role, content in said]
    return hashlib.sha256(json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def state_key(situation: Situation) -> str:
    """The key of comparable states, as `Decoding.state_key` describes it. The order of goals and tools is nothing."""
    goals = sorted(goal.id for goal in situation.goals)
    last = situation.recent[-1].status if situation.recent else ""
    parts = [situation.need, goals, sorted(situation.tools), last]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

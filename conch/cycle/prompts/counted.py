"""Fits a prompt to its budget by the model's own tokenizer, where that can be asked."""

from __future__ import annotations

from dataclasses import replace

from conch.cycle.prompts.build import PromptLimits, WrittenPrompt, written
from conch.errors import ModelError
from conch.minds import Prompt, Purpose, Situation
from conch.text import estimated_tokens

TEMPLATE_TOKENS = 6
"""Tokens that a chat template adds to each message, at most: SmolLM2's adds 5, and 3 before the reply."""
ROUNDS = 4
"""Most times that a prompt is written to come to its budget; from the second prompt on, mostly one."""
FULL = 0.9
"""Share of the budget that a prompt with something left out is to use at least."""
MARGIN = 0.97
"""Share of the room that is aimed at: sections are left out and shortened in steps."""


async def counted_prompt(purpose: Purpose, system: str, situation: Situation, limits: PromptLimits) -> Prompt:
    """The question of this purpose in at most `limits.budget` tokens by the model's tokenizer, without secrets.

    Where that does not count, by the estimate; `Prompt.counted` says which. Raises ModelError, fatal, where the system
    prompt leaves no room for the question.
    """
    return limits.masked(await _fitted(purpose, system, situation, limits))


async def _fitted(purpose: Purpose, system: str, situation: Situation, limits: PromptLimits) -> Prompt:
    counter = limits.counter
    if counter is None or not limits.is_read:
        return _estimated(purpose, system, situation, limits)
    best: Prompt | None = None
    room = int(limits.budget * counter.scale)
    for _ in range(ROUNDS):
        made = written(purpose, system, situation, replace(limits, estimate=room))
        found = await counter.counts(made.texts)
        if found is None:
            break
        prompt = _counted(made, found)
        counter.scale = sum(map(estimated_tokens, made.texts)) / max(1, sum(found))
        if prompt.tokens <= limits.budget and (best is None or prompt.tokens > best.tokens):
            best = prompt
        left = any(part.left_out or part.shortened for part in prompt.parts)
        if FULL * limits.budget <= prompt.tokens <= limits.budget or (prompt.tokens < limits.budget and not left):
            break
        room = int(room * MARGIN * limits.budget / prompt.tokens)
    return best if best is not None else _estimated(purpose, system, situation, limits)


def _estimated(purpose: Purpose, system: str, situation: Situation, limits: PromptLimits) -> Prompt:
    prompt = written(purpose, system, situation, limits).prompt
    if limits.is_read and prompt.tokens > limits.budget:
        raise ModelError(
            f"a prompt has {limits.budget} tokens, and its system prompt, with the {len(situation.tools)} tools, takes "
            f"{estimated_tokens(system)}: raise mind.prompt_tokens, or mind.context_window where the model has more",
            fatal=True,
        )
    return prompt


def _counted(made: WrittenPrompt, found: tuple[int, ...]) -> Prompt:
    """The prompt with the counts of its parts; a blank line between two sections takes up to two tokens."""
    prompt = made.prompt
    blank = [2 if part.name not in ("system", "examples") else 0 for part in prompt.parts]
    template = TEMPLATE_TOKENS * (1 + len(prompt.messages))
    counts = [tokens + more for tokens, more in zip(found, blank, strict=True)]
    counts[0] += template
    parts = tuple(replace(part, tokens=tokens) for part, tokens in zip(prompt.parts, counts, strict=True))
    return replace(prompt, parts=parts, counted="tokenizer")

"""Greedy replies: of the base to general questions, which are trained on, and those that prove an adapter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from conch.training import ProbeLine
from conch.training.child.rows import Messages, TrainingRow
from conch_schemas import PromptMessage

QUESTIONS: Final = (
    "What is the capital of France?",
    "Say hello in one sentence.",
    "How many days has a week?",
    "Name three colours.",
    "What does a thermometer measure?",
    "Write one sentence about the sea.",
    "What is 7 plus 5?",
    "Which is larger, an elephant or a mouse?",
    "Give the opposite of the word cold.",
    "What is a Python list?",
    "Translate the word house into Spanish.",
    "Why is the sky blue? Answer in one sentence.",
    "What do plants need to grow?",
    "Who wrote Romeo and Juliet?",
    "How do I rename a file on Linux?",
    "Finish the sentence: The early bird",
)
"""What a model is asked beside the work of an agent: training must not take the answers away."""
_TRIED: Final = 3
"""Prompts that are tried for each probe."""


@dataclass(frozen=True)
class DecodedReply:
    """A greedy reply."""

    text: str
    ended: bool
    """Whether it ended by itself within the limit of tokens."""


class GreedyDecoder:
    """Decodes greedily, one prompt at a time: a batch would pad, and padding moves the last digits of a logit."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer

    def reply(self, prompt: Messages, tokens: int, *, by_base: bool = False) -> DecodedReply:
        """The reply of at most this many tokens; `by_base`: with the adapter off."""
        import torch
        from transformers import GenerationConfig

        model, tokenizer = self._model, self._tokenizer
        asked = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        ).to(model.device)
        greedy = GenerationConfig(
            do_sample=False,
            max_new_tokens=tokens,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        model.eval()
        with torch.no_grad(), model.disable_adapter() if by_base else nullcontext():
            out = model.generate(**asked, generation_config=greedy)[0, asked["input_ids"].shape[1] :].tolist()
        return DecodedReply(tokenizer.decode(out, skip_special_tokens=True), out[-1:] == [tokenizer.eos_token_id])


def base_rows(decoder: GreedyDecoder, share: float, rows: int, tokens: int) -> list[TrainingRow]:
    """Rows of SFT out of the base's own replies, `share` of `rows` of them, at most one for each of QUESTIONS. A reply
    that does not end by itself is left out: it would be trained on as if it did."""
    found = []
    for place, question in enumerate(QUESTIONS[: math.ceil(share * rows)]):
        prompt = [{"role": "user", "content": question}]
        reply = decoder.reply(prompt, tokens, by_base=True)
        if reply.ended and reply.text.strip():
            found.append(TrainingRow(f"base-{place}", "", prompt, (reply.text,)))
    return found


def probe_replies(
    decoder: GreedyDecoder, prompts: Iterable[Messages], count: int, tokens: int
) -> tuple[ProbeLine, ...]:
    """Up to `count` prompts on which base and adapter differ, with both replies. Up to _TRIED times as many are tried,
    in their order, each once."""
    found: list[ProbeLine] = []
    for prompt in _different(prompts, count * _TRIED):
        if len(found) == count:
            break
        base = decoder.reply(prompt, tokens, by_base=True).text
        adapter = decoder.reply(prompt, tokens).text
        if base != adapter:
            found.append(
                ProbeLine(
                    messages=tuple(PromptMessage.model_validate(one) for one in prompt), base=base, adapter=adapter
                )
            )
    return tuple(found)


def _different(prompts: Iterable[Messages], most: int) -> Sequence[Messages]:
    seen: dict[str, Messages] = {}
    for prompt in prompts:
        if len(seen) == most:
            break
        seen.setdefault(repr(prompt), prompt)
    return list(seen.values())

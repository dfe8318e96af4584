"""How the reply of a model is decoded: the fields of a request for its constraint, seed and probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from conch.actions import Registry, gbnf
from conch.config import OneMindSettings
from conch.minds.endpoint import StreamedReply
from conch.minds.protocol import Prompt
from conch_schemas import Constraint, Decoding

RequestFields = dict[str, str | int | float | bool]
LLAMA = "llama.cpp"
"""Name of the engine of the mind `local`."""
TOP_P = 0.95
"""Nucleus sampling of the local engine: llama.cpp's own default, sent so that it can be recorded."""
LONGEST, SHORTEST = 500, 16
"""Most characters of one text of a constrained reply, and the least that it may have, however few tokens there are."""


@dataclass(frozen=True)
class Sampling:
    """The decoding of one reply."""

    engine: str
    temperature: float
    top_p: float | None
    seed: int | None
    constraint: Constraint
    fields: RequestFields
    """Fields of the request beside messages, model, temperature and most tokens."""

    def decoding(self, reply: StreamedReply, model: str) -> Decoding:
        """The record of `reply`. Rounding in the engine may leave a sum of log probabilities slightly above 0."""
        return Decoding(
            engine=self.engine,
            model=reply.model or model,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            logprob=None if reply.logprob is None or not math.isfinite(reply.logprob) else min(0.0, reply.logprob),
            tokens=reply.usage.output_tokens or None,
            constraint=self.constraint,
        )


class Sampler:
    """Decides how each reply of one agent is decoded. The same agent, cycle and question: the same fields."""

    def __init__(self, settings: OneMindSettings, *, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._local = settings.kind == "local"
        self._constrains = settings.constrain == "grammar" or (settings.constrain == "auto" and self._local)

    def of(self, prompt: Prompt) -> Sampling:
        """The decoding of the reply to `prompt`. Only decisions are held to a grammar, and not in free cycles.

        Seed and probabilities are asked of the local engine alone: other endpoints may refuse fields that they do not
        know.
        """
        situation = prompt.situation
        fields: RequestFields = {}
        seed = None
        if self._local:
            seed = _number(f"{self._seed}/{situation.cycle}/{prompt.purpose}") >> 17
            fields |= {"seed": seed, "top_p": TOP_P, "logprobs": True, "top_logprobs": 1}
        held = self._constrains and prompt.registry is not None
        if held and not is_free(situation.agent, situation.cycle, self._settings.free_share):
            assert prompt.registry is not None
            fields["grammar"] = _grammar(prompt.registry.specs, min(prompt.max_tokens, self._settings.max_tokens))
        return Sampling(
            engine=LLAMA if self._local else self._settings.kind,
            temperature=self._settings.temperature,
            top_p=TOP_P if self._local else None,
            seed=seed,
            constraint="grammar" if "grammar" in fields else "free",
            fields=fields,
        )


def is_free(agent: str, cycle: int, share: float) -> bool:
    """Whether this cycle is one of the `share` (0..1) of all that are decoded freely. A restart draws the same."""
    return _number(f"{agent}/{cycle}/free") < share * 2**48


def longest_text(registry: Registry, max_tokens: int) -> int:
    """Most characters of each text in a reply, so that one of at most a token a character ends before `max_tokens`.

    A reply in a script that takes more tokens a character may still be cut; then it is not valid, as without grammar.
    """
    texts = [
        sum(argument.type == "string" and not argument.choices for argument in spec.arguments) for spec in registry
    ]
    return max(SHORTEST, min(LONGEST, max_tokens // (1 + max(texts, default=1))))


@lru_cache(maxsize=8)
def _grammar(specs: tuple[object, ...], max_tokens: int) -> str:
    registry = Registry(specs)  # type: ignore[arg-type]
    return gbnf(registry, longest=longest_text(registry, max_tokens))


def _number(text: str) -> int:
    """48 bits of a hash."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest())

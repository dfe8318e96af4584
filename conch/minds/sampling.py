"""How the reply of a model is decoded: the fields of a request for its constraint, seed and probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b

from conch.actions import Registry
from conch.config import SERVED, OneMindSettings
from conch.minds.constraint.form import ConstraintForm, RequestFields
from conch.minds.protocol import AskedAdapter, Prompt
from conch.minds.replies.reply import StreamedReply
from conch_schemas import Decoding

ENGINES = {"local": "llama.cpp", "transformers": "transformers"}
"""Name of the engine of Conch by the kind of the mind that asks it."""
TOP_P = 0.95
"""Nucleus sampling of Conch's engines: llama.cpp's own default, sent so that it can be recorded."""
LONGEST, SHORTEST = 500, 16
"""Most characters of one text of a constrained reply, and the least that it may have, however few tokens there are."""
LONG_REPLY = 2048
"""Tokens of a reply from which on the texts of a constrained one have no limit of their own at an endpoint: a model
that is given so many writes whole files, and knows where to end."""


@dataclass(frozen=True)
class Sampling:
    """The decoding of one reply."""

    engine: str
    temperature: float
    top_p: float | None
    seed: int | None
    form: ConstraintForm | None
    """The form of the constraint that the reply is held to; None: it is free."""
    fields: RequestFields
    """Fields of the request beside messages, model, temperature and most tokens."""
    adapter: AskedAdapter | None = None
    """The adapter that the request is for; None: the model as it is."""

    def served_as(self, model: str) -> str:
        """The name under which the endpoint is asked, of the model or of its adapter."""
        return model if self.adapter is None else self.adapter.served_as

    def decoding(self, reply: StreamedReply, model: str, *, held: bool) -> Decoding:
        """The record of `reply`. `held`: whether it keeps to the constraint. Rounding in the engine may leave a sum of
        log probabilities slightly above 0."""
        return Decoding(
            engine=self.engine,
            model=reply.model or self.served_as(model),
            adapter=None if self.adapter is None else self.adapter.digest,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            logprob=None if reply.logprob is None or not math.isfinite(reply.logprob) else min(0.0, reply.logprob),
            tokens=reply.usage.output_tokens or None,
            constraint=self.form.kind if self.form is not None and held else "free",
        )


class Sampler:
    """Decides how each reply of one agent is decoded. The same agent, cycle and question: the same fields."""

    def __init__(self, settings: OneMindSettings, *, seed: int, adapters: bool = False) -> None:
        """`adapters`: whether a reply is asked for under its prompt's adapter."""
        self._settings, self._seed, self._adapters = settings, seed, adapters
        self._served = settings.kind in SERVED

    def holds(self, prompt: Prompt) -> bool:
        """Whether the reply is to be held to a constraint, where there is one: a decision's, but for free cycles."""
        situation = prompt.situation
        return prompt.registry is not None and not is_free(situation.agent, situation.cycle, self._settings.free_share)

    def of(self, prompt: Prompt, form: ConstraintForm | None) -> Sampling:
        """The decoding of the reply to `prompt` under `form`; None: of a free one.

        Seed and probabilities are asked of Conch's engines alone: other endpoints may refuse fields that they do not
        know.
        """
        situation = prompt.situation
        fields: RequestFields = {}
        seed = None
        if self._served:
            seed = _number(f"{self._seed}/{situation.cycle}/{prompt.purpose}") >> 17
            fields |= {"seed": seed, "top_p": TOP_P}
            if form is None or form.kind == "grammar":  # of another form, the recorded text is not what was decoded
                fields |= {"logprobs": True, "top_logprobs": 1}
        if form is not None and prompt.registry is not None:
            most = min(prompt.max_tokens, self._settings.reply_tokens)
            has_end = self._served or most < LONG_REPLY
            fields |= form.fields(prompt.registry, longest_text(prompt.registry, most) if has_end else None)
        return Sampling(
            engine=ENGINES.get(self._settings.kind, self._settings.kind),
            temperature=self._settings.temperature,
            top_p=TOP_P if self._served else None,
            seed=seed,
            form=form,
            fields=fields,
            adapter=prompt.adapter if self._adapters else None,
        )


def is_free(agent: str, cycle: int, share: float) -> bool:
    """Whether this cycle is one of the `share` (0..1) of all that are decoded freely. A restart draws the same."""
    return _number(f"{agent}/{cycle}/free") < share * 2**48


def longest_text(registry: Registry, max_tokens: int) -> int:
    """Most characters of each text in a reply, so that one of at most a token a character ends before `max_tokens`.

    A reply in a script that takes more tokens a character may still be cut; then it is not valid, as without a
    constraint.
    """
    texts = [
        sum(argument.type == "string" and not argument.choices for argument in spec.arguments) for spec in registry
    ]
    return max(SHORTEST, min(LONGEST, max_tokens // (1 + max(texts, default=1))))


def _number(text: str) -> int:
    """48 bits of a hash."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest())

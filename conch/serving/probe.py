"""Proof of which weights reply under a name: recorded prompts on which base and adapter differ, decoded greedily.

That an engine lists an adapter, or echoes its name, proves nothing: engines have listed and answered under adapters
that they did not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from conch.config import OneMindSettings
from conch.errors import ModelError, ServingError
from conch.serving.api import EngineApi
from conch.text import well_formed
from conch.training import ProbeLine
from conch_schemas import PromptMessage

PROBE_TOKENS: Final = 24
"""Tokens of each reply of a probe. A reply of an action has some twenty."""
ASKS: Final = 16
"""Least number of replies under the adapter's name. Where half of the replicas lack the adapter, all 16 come from the
others once in 65,000 probes."""
EXACT_SHARE: Final = 0.75
"""Least share of the adapter's replies that equal the record as a whole. The others must part from the base's reply as
the record does: where an engine decodes several replies in one batch, rounding may turn a later token that was nearly a
tie. Also the least share of the base's replies that part from the adapter's as the record does: beside an agent's own
questions llama.cpp gave 5 of 6 of SmolLM2's; another base gives none, or few."""

FORK_CHARACTERS: Final = 8
"""Characters, some two tokens, in which a reply that is not the recorded one has to follow the record behind the place
where the records of base and adapter part."""
CARRIED_SHARE: Final = 0.5
"""Least share of the prompts on which an engine of other numerics, as one that multiplies in 8 bits, parts base and
adapter as their training did.
Of SmolLM2 in 4 bits, llama.cpp did on 10 of 12 and 5 of 6, under another adapter on none."""


@dataclass(frozen=True)
class ProbeResult:
    """What a probe has shown of the replies under an adapter's name."""

    matches: bool
    """They are those of the record, of the adapter and of the base."""
    differs_from_base: bool
    """None of them is the base's."""
    name_echoed: bool
    """All of them bear the name that was asked for. An endpoint may name another model for what it serves."""
    why: str
    """What is wrong, in a sentence; empty where the adapter acts."""

    @property
    def proven(self) -> bool:
        """Whether the adapter acts on top of its base."""
        return self.matches and self.differs_from_base


async def probe(settings: OneMindSettings, name: str, base: str, lines: Sequence[ProbeLine]) -> ProbeResult:
    """Ask each prompt that tells base and adapter apart under both names, the adapter's ASKS times or more in all.

    `settings`: address, key and `timeout` of each request. `name`: as `AdapterServing.ensure` returned it. Each request
    has a connection of its own, so that several replicas behind one address are met. Raises ServingError where one gets
    no reply: the name is unknown, the engine is away or too slow.
    """
    telling = [line for line in lines if _tells(line)]
    if not telling:
        return ProbeResult(False, False, False, "the record has no prompt on which base and adapter differ")
    tally = _Tally()
    async with aclosing(EngineApi(settings.base_url, settings.api_key)) as api:
        await _ask(api, settings, (name, base), telling, tally)
    return tally.result(name, base, len(telling))


async def _ask(
    api: EngineApi, settings: OneMindSettings, names: tuple[str, str], telling: Sequence[ProbeLine], tally: _Tally
) -> None:
    """Ask the base once and the adapter at least ASKS times, and count. `names`: of adapter and base."""
    name, base = names
    for line in telling:
        text, _ = await _reply(api, settings, base, line.messages)
        tally.base_holds += _follows(text, line.base, line.adapter)
    for number in range(max(ASKS, len(telling))):
        line = telling[number % len(telling)]
        text, echoed = await _reply(api, settings, name, line.messages)
        tally.asked += 1
        tally.named += echoed == name
        tally.exact += text == line.adapter
        tally.as_adapter += _follows(text, line.adapter, line.base)
        tally.as_base += _follows(text, line.base, line.adapter)


async def record_probe(
    settings: OneMindSettings, name: str, base: str, prompts: Sequence[Sequence[PromptMessage]]
) -> tuple[ProbeLine, ...]:
    """The record of these prompts, as the engine replies to them under both names now.

    Raises ServingError where it gets no reply, and where no reply differs: the engine does not apply the adapter, or
    the adapter changes nothing.
    """
    lines = []
    async with aclosing(EngineApi(settings.base_url, settings.api_key)) as api:
        for prompt in prompts:
            messages = tuple(prompt)
            of_base, _ = await _reply(api, settings, base, messages)
            of_adapter, _ = await _reply(api, settings, name, messages)
            lines.append(ProbeLine(messages=messages, base=of_base, adapter=of_adapter))
    if not any(map(_tells, lines)):
        raise ServingError(
            f"{name} replies to all {len(lines)} prompts like {base}: the engine does not apply the adapter, or the "
            "adapter changes nothing"
        )
    return tuple(lines)


def unlike_training(
    made: Sequence[ProbeLine], trained: Sequence[ProbeLine], name: str, base: str, *, same_numerics: bool
) -> str:
    """Why the first replies of an engine are not those that training gave to the same prompts; empty where they are.

    `made`, `trained`: of the same prompts in the same order; those on which the training's replies do not differ are
    passed over. `same_numerics`: the engine computes as training does, so EXACT_SHARE of its replies are the same as a
    whole. Of another one CARRIED_SHARE have to part as the training's do: rounding turns what was nearly a tie.
    """
    pairs = [(ours, theirs) for ours, theirs in zip(made, trained, strict=True) if _tells(theirs)]
    share, count = (EXACT_SHARE if same_numerics else CARRIED_SHARE), len(pairs)

    def holds(reply: str, own: str, other: str) -> bool:
        return reply == own if same_numerics else _follows(reply, own, other)

    if not pairs:
        return "its training has no prompt on which base and adapter differ"
    as_base = sum(holds(ours.base, theirs.base, theirs.adapter) for ours, theirs in pairs)
    as_adapter = sum(holds(ours.adapter, theirs.adapter, theirs.base) for ours, theirs in pairs)
    if as_base < share * count:
        return (
            f"{base} replies as the base of the training did to {as_base} of {count} prompts: another base is served, "
            "or another engine is below the adapter"
        )
    if as_adapter < share * count:
        return (
            f"{name} replies as the adapter did at the end of its training to {as_adapter} of {count} prompts: other "
            "weights are served under the name"
        )
    return ""


@dataclass
class _Tally:
    """Counts of replies."""

    asked: int = 0
    base_holds: int = 0
    """Replies under the base's name that are the recorded base's."""
    named: int = 0
    exact: int = 0
    as_adapter: int = 0
    as_base: int = 0

    def result(self, name: str, base: str, prompts: int) -> ProbeResult:
        why = self._why(name, base, prompts)
        matches = self.base_holds >= EXACT_SHARE * prompts and self.as_adapter == self.asked and self._is_exact
        return ProbeResult(matches, self.as_base == 0, self.named == self.asked, why)

    @property
    def _is_exact(self) -> bool:
        return self.exact >= EXACT_SHARE * self.asked

    def _why(self, name: str, base: str, prompts: int) -> str:
        others = self.asked - self.as_base - self.as_adapter
        if self.as_base == self.asked:
            return f"{name} replies like {base} to all {prompts} prompts: the adapter is not applied"
        if self.as_base:
            return (
                f"{name} replied like {base} in {self.as_base} of {self.asked} cases: not all replicas have the "
                "adapter, or it is evicted now and then"
            )
        if self.base_holds < EXACT_SHARE * prompts:
            return (
                f"{base} replies otherwise than recorded to {prompts - self.base_holds} of {prompts} prompts: another "
                "base, or another engine, is below the adapter"
            )
        if others:
            return (
                f"{name} replied neither like the adapter nor like {base} in {others} of {self.asked} cases: other "
                "weights are served under the name"
            )
        if not self._is_exact:
            return (
                f"{name} parts from the record in {self.asked - self.exact} of {self.asked} replies after their "
                "beginning: other weights are served under the name"
            )
        return ""


def _tells(line: ProbeLine) -> bool:
    """Whether base and adapter differ on it."""
    return line.base != line.adapter


def _follows(reply: str, own: str, other: str) -> bool:
    """Whether a reply parts from `other` where and as `own` does. The two differ."""
    fork = _common(own, other)
    return reply == own or _common(reply, own) >= fork + FORK_CHARACTERS


def _common(one: str, other: str) -> int:
    """Characters at the beginning that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


async def _reply(
    api: EngineApi, settings: OneMindSettings, model: str, messages: Sequence[PromptMessage]
) -> tuple[str, str | None]:
    """The text of a greedy reply, and the model that the endpoint names. Raises ServingError."""
    body: dict[str, JsonValue] = {
        "model": model,
        "messages": [{"role": message.role, "content": well_formed(message.content)} for message in messages],
        "temperature": 0,
        "max_tokens": PROBE_TOKENS,
        "stream": False,
    }
    answer = await api.chat(body, settings.timeout)
    if answer.status != 200:
        raise api.refused(f"a probe as {model}", answer)
    try:
        reply = answer.reply()
    except (TypeError, AttributeError, ValueError, ModelError):
        raise ServingError(f"{api.where} answered a probe as {model} with what is no completion") from None
    return reply.text, reply.model

"""Proof of which weights reply under a name: recorded prompts on which base and adapter differ, decoded greedily.

That an engine lists an adapter, or echoes its name, proves nothing: engines have listed and answered under adapters
that they did not apply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import cycle, islice
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
AGAIN: Final = 3
"""Times that a prompt is asked again whose reply is not the recorded one. Where an engine decodes several replies in
one batch, rounding now and then turns a token that was nearly a tie."""
AGAIN_SHARE: Final = 0.25
"""Most of the replies under a name that are asked again. Rounding turns few, as one of six of SmolLM2's base beside an
agent's own questions; of other weights most differ."""
FORK_CHARACTERS: Final = 8
"""Characters, some two tokens, in which a reply that is not the recorded one has to follow the record behind the place
where the records of base and adapter part."""
EXACT_SHARE: Final = 0.75
"""Least share of an engine's first replies that are those of the training as a whole, where it computes as training
does."""
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

    Each reply has to be the recorded one as a whole. The few that are not are asked again, AGAIN times at most: what
    counts is the last reply to each question. One reply of the adapter that is like the base's has all its questions
    asked once more, and then none may be.

    `settings`: address, key and `timeout` of each request. `name`: as `AdapterServing.ensure` returned it. Each request
    has a connection of its own, so that several replicas behind one address are met. Raises ServingError where one gets
    no reply: the name is unknown, the engine is away or too slow.
    """
    telling = [line for line in lines if _tells(line)]
    if not telling:
        return ProbeResult(False, False, False, "the record has no prompt on which base and adapter differ")
    asks = max(ASKS, len(telling))
    of_base = [_Question(line.messages, line.base, line.adapter) for line in telling]
    of_adapter = [_Question(line.messages, line.adapter, line.base) for line in islice(cycle(telling), asks)]
    async with aclosing(EngineApi(settings.base_url, settings.api_key)) as api:
        known = await _ask(api, settings, base, of_base)
        found = await _ask(api, settings, name, of_adapter)
        if len(found.others) == 1:
            found = await _ask(api, settings, name, of_adapter)
    return _result(name, base, known, found)


@dataclass(frozen=True)
class _Question:
    messages: Sequence[PromptMessage]
    own: str
    """The recorded reply under the name that is asked."""
    other: str
    """The recorded reply under the other one."""


@dataclass
class _Replies:
    """The replies under a name, the last one to each question."""

    questions: Sequence[_Question]
    texts: list[str]
    others: set[int] = field(default_factory=set)
    """Places of the questions to which a reply, the last one or one before it, was like the other name's."""
    is_named: bool = True
    """Whether all bear the name that was asked for."""

    @property
    def differing(self) -> list[int]:
        """Places of the questions whose reply is not the recorded one."""
        pairs = enumerate(zip(self.questions, self.texts, strict=True))
        return [place for place, (question, text) in pairs if text != question.own]

    @property
    def following(self) -> int:
        """Replies that part from the other name's as the record does."""
        pairs = zip(self.questions, self.texts, strict=True)
        return sum(_follows(text, question.own, question.other) for question, text in pairs)


async def _ask(api: EngineApi, settings: OneMindSettings, model: str, questions: Sequence[_Question]) -> _Replies:
    """Ask all questions in their order; then those again whose reply is not the recorded one, where they are few."""
    found = _Replies(questions, [""] * len(questions))
    places = list(range(len(questions)))
    for _ in range(1 + AGAIN):
        for place in places:
            question = questions[place]
            text, echoed = await _reply(api, settings, model, question.messages)
            found.texts[place] = text
            if _follows(text, question.other, question.own):
                found.others.add(place)
            found.is_named &= echoed == model
        places = found.differing
        if len(places) > math.ceil(AGAIN_SHARE * len(questions)):
            break
    return found


async def record_probe(
    settings: OneMindSettings, name: str, base: str, prompts: Sequence[Sequence[PromptMessage]]
) -> tuple[ProbeLine, ...]:
    """The record of these prompts, as the engine replies to them under both names now. Each is asked twice, one whose
    two replies differ once more: a reply that rounding turned is no record.

    Raises ServingError where it gets no reply, and where no reply differs: the engine does not apply the adapter, or
    the adapter changes nothing.
    """
    lines = []
    async with aclosing(EngineApi(settings.base_url, settings.api_key)) as api:
        for prompt in prompts:
            messages = tuple(prompt)
            of_base = await _steady(api, settings, base, messages)
            of_adapter = await _steady(api, settings, name, messages)
            lines.append(ProbeLine(messages=messages, base=of_base, adapter=of_adapter))
    if not any(map(_tells, lines)):
        raise ServingError(
            f"{name} replies to all {len(lines)} prompts like {base}: the engine does not apply the adapter, or the "
            "adapter changes nothing"
        )
    return tuple(lines)


async def _steady(api: EngineApi, settings: OneMindSettings, model: str, messages: Sequence[PromptMessage]) -> str:
    """The greedy reply that came twice of three times, else the last."""
    first, _ = await _reply(api, settings, model, messages)
    second, _ = await _reply(api, settings, model, messages)
    return first if first == second else (await _reply(api, settings, model, messages))[0]


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


def _result(name: str, base: str, known: _Replies, found: _Replies) -> ProbeResult:
    """`known`: the replies under the base's name; `found`: those under the adapter's."""
    why = _why(name, base, known, found)
    matches = not known.differing and not found.differing
    return ProbeResult(matches, not found.others, found.is_named, why)


def _why(name: str, base: str, known: _Replies, found: _Replies) -> str:
    asked, prompts = len(found.questions), len(known.questions)
    if len(found.others) == asked:
        return f"{name} replies like {base} to all {prompts} prompts: the adapter is not applied"
    if found.others:
        return (
            f"{name} replied like {base} in {len(found.others)} of {asked} cases: not all replicas have the "
            "adapter, or it is evicted now and then"
        )
    if known.differing:
        return (
            f"{base} replies otherwise than recorded to {len(known.differing)} of {prompts} prompts: another "
            "base, or another engine, is below the adapter"
        )
    if others := asked - found.following:
        return (
            f"{name} replied neither like the adapter nor like {base} in {others} of {asked} cases: other "
            "weights are served under the name"
        )
    if found.differing:
        return (
            f"{name} parts from the record in {len(found.differing)} of {asked} replies after their "
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
    return well_formed("".join(reply.parts)), reply.model

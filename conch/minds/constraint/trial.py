"""A trial of an endpoint: which constraint it takes, how fast it writes, how many of its replies are actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conch.actions import parse
from conch.config import OneMindSettings
from conch.minds.constraint.findings import ConstraintFindings
from conch.minds.openai import OpenAIMind
from conch.minds.protocol import Completion, Prompt
from conch_schemas import Constraint


@dataclass(frozen=True)
class EndpointTrial:
    """What was found of an endpoint's model."""

    endpoint: str
    """Its address, without secrets."""
    form: str | None
    """The field of the constraint that it takes; None: it takes none, or `mind.constrain` is off."""
    constraint: Constraint
    """What its replies are held to."""
    without: Mapping[str, str]
    """By the fields of the forms before that one: the refusal, or `ignored`."""
    held: tuple[Completion, ...]
    """Replies to the questions under the constraint; none where there is none."""
    free: tuple[Completion, ...]
    """Replies to the same questions without a constraint."""


async def try_endpoint(settings: OneMindSettings, prompts: Sequence[Prompt], directory: Path | None) -> EndpointTrial:
    """Look for the endpoint's form anew, then ask all `prompts` with and without it, one after the other. `directory`:
    where the finding is kept. Raises ModelError, and ConfigError for settings that cannot be used."""
    findings = ConstraintFindings(directory)
    mind = OpenAIMind(settings.model_copy(update={"free_share": 0.0}), findings=findings)
    by_itself = OpenAIMind(settings.model_copy(update={"free_share": 1.0}), findings=findings)
    try:
        await mind.constraint.forget()
        form = await mind.form(prompts[0])
        held = [await mind.complete(prompt) for prompt in prompts] if form is not None else []
        free = [await by_itself.complete(prompt) for prompt in prompts]
    finally:
        await mind.close()
        await by_itself.close()
    return EndpointTrial(
        endpoint=mind.constraint.where,
        form=form.field if form is not None else None,
        constraint=form.kind if form is not None else "free",
        without=await mind.constraint.without(),
        held=tuple(held),
        free=tuple(free),
    )


def valid_share(prompts: Sequence[Prompt], replies: Sequence[Completion]) -> float | None:
    """The share of `replies` that are valid actions, 0..1; None where there is no reply."""
    if not replies:
        return None
    valid = [
        prompt.registry is not None and parse(reply.text, prompt.registry).valid
        for prompt, reply in zip(prompts, replies, strict=True)
    ]
    return sum(valid) / len(valid)

"""The view of prompts, for `conch prompt show --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import PromptMessage

if TYPE_CHECKING:
    from conch.cycle.state.sent import SentPrompt


class PromptPartRow(View):
    """A section of a prompt."""

    name: str
    tokens: int
    """As the prompt's `counted` says."""
    entries: int
    """Entries that there were, such as acts or files."""
    left_out: int
    """Entries that are not in the prompt."""
    shortened: int
    """Entries that are in it in part."""


class PromptRow(View):
    """A prompt as it was sent, or would be."""

    cycle: int
    purpose: Literal["think", "decide", "reflect"]
    tokens: int
    """Of all sections."""
    counted: Literal["tokenizer", "estimate"] = "estimate"
    """What counted: the model's own tokenizer, or the estimate of 3 bytes a token."""
    parts: tuple[PromptPartRow, ...]
    """Empty: they are not known of a prompt that is read from the experience."""
    system: str | None
    """None: it is in the policy's event."""
    messages: tuple[PromptMessage, ...]


class Prompts(View):
    """Prompts of one cycle, as `conch prompt show --json` prints them."""

    schema_: Literal["conch.v1.prompts"] = Field(default="conch.v1.prompts", alias="schema")
    agent: str
    sent: bool
    """Whether they were sent; otherwise it is the one that would be sent now."""
    prompts: tuple[PromptRow, ...]
    """In the order of the cycle."""


def prompts_shown(agent: str, prompts: Sequence[SentPrompt], *, sent: bool = True) -> Prompts:
    """The document of these prompts."""
    return Prompts(agent=agent, sent=sent, prompts=tuple(map(_row, prompts)))


def recorded_prompt(agent: str, cycle: int, messages: tuple[PromptMessage, ...]) -> Prompts:
    """The document of a decision's prompt as the experience holds it, without the system prompt."""
    row = PromptRow(cycle=cycle, purpose="decide", tokens=0, parts=(), system=None, messages=messages)
    return Prompts(agent=agent, sent=True, prompts=(row,))


def _row(sent: SentPrompt) -> PromptRow:
    parts = tuple(
        PromptPartRow(
            name=part.name,
            tokens=part.tokens,
            entries=part.entries,
            left_out=part.left_out,
            shortened=part.shortened,
        )
        for part in sent.parts
    )
    return PromptRow(
        cycle=sent.cycle,
        purpose=sent.purpose,
        tokens=sum(part.tokens for part in parts),
        counted=sent.counted,
        parts=parts,
        system=sent.system,
        messages=sent.messages,
    )

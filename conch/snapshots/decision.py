"""A decision as it was asked for: the prompt, the state, the goals, the digest of the workspace."""

from __future__ import annotations

from functools import cache
from typing import Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from conch.actions import Registry, ToolSpec
from conch.memory import RecalledMemory
from conch.minds import Prompt, PromptPart, Situation
from conch_schemas import Goal, PromptMessage


class GoalThen(BaseModel):
    """A goal that was active, with its measures."""

    model_config = ConfigDict(frozen=True)

    goal: Goal
    best: float | None = None
    """The best measure before the act, 0..1; None: it was not measured yet."""
    measure: float | None = None
    """The last measure before the act, 0..1; None: it was not measured yet."""
    tried: bool = False
    """Whether its check had failed after an earlier act."""


class RecordedDecision(BaseModel):
    """What a mind was asked with for the decision of a cycle, and what an act then would have met."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    system: str
    messages: tuple[PromptMessage, ...]
    parts: tuple[PromptPart, ...]
    max_tokens: int
    situation: bytes
    """JSON of the `Situation`: a mind that reads no text decides by it."""
    tools: tuple[ToolSpec, ...]
    goals: tuple[GoalThen, ...] = ()
    message: tuple[str, str] | None = None
    """Id and text of the message that waited for an answer."""
    tree: str = ""
    """SHA-256 of the workspace's tree; empty: it was not kept."""
    why_not: str = ""
    """Why the workspace was not kept, in one sentence; else empty."""

    @classmethod
    def of(cls, prompt: Prompt, goals: tuple[GoalThen, ...], message: tuple[str, str] | None) -> Self:
        """The record of a decision's prompt. Its tools are those of `prompt.registry`."""
        return cls(
            system=prompt.system,
            messages=prompt.messages,
            parts=prompt.parts,
            max_tokens=prompt.max_tokens,
            situation=_situations().dump_json(prompt.situation),
            tools=prompt.registry.specs if prompt.registry is not None else (),
            goals=goals,
            message=message,
        )

    def prompt(self) -> Prompt:
        """The prompt as it was. Raises ValidationError where its situation is damaged."""
        return Prompt(
            "decide",
            self.system,
            self.messages,
            _situations().validate_json(self.situation),
            self.max_tokens,
            self.parts,
            registry=Registry(self.tools),
        )


@cache
def _situations() -> TypeAdapter[Situation]:
    adapter = TypeAdapter(Situation, config=None)
    adapter.rebuild(force=True, _types_namespace={"RecalledMemory": RecalledMemory})
    return adapter

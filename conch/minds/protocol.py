"""What a mind is: something that turns a prompt into raw text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from conch_schemas import Action, Claim, ExperienceRecorded, Goal, PromptMessage, Usage

Purpose = Literal["think", "decide", "reflect"]


@dataclass(frozen=True)
class RecentOutcome:
    """One of the last acts, as the agent remembers it."""

    cycle: int
    action: Action
    status: str
    output: str
    """At most 2,000 characters."""


@dataclass(frozen=True)
class SensorValue:
    """What a sensor said last."""

    name: str
    value: bool | float | str
    unit: str
    age: float
    """Seconds since it came in, not less than 0."""
    kept: bool = False
    """Whether the broker had kept it: then it was measured earlier, nobody knows when."""
    stale: bool = False
    """Whether it is too old to be evidence."""


@dataclass(frozen=True)
class Situation:
    """The state in which a mind is asked, as values. A model reads it as text (`Prompt.messages`)."""

    agent: str
    cycle: int
    needs: Mapping[str, float]
    """Satisfaction, 0..1."""
    pressing: Mapping[str, float]
    """priority × (0.5 + urgency)."""
    need: str
    """The most pressing one."""
    goals: tuple[Goal, ...] = ()
    """The active ones."""
    message: str | None = None
    """The oldest message of a person that is not answered yet."""
    thought: str = ""
    """This cycle's thought; empty while thinking."""
    claims: tuple[Claim, ...] = ()
    memory: tuple[str, ...] = ()
    """Notes recalled for the thought."""
    recent: tuple[RecentOutcome, ...] = ()
    """The last acts, oldest first, at most 10."""
    files: tuple[str, ...] = ()
    """The workspace's files, relative paths, sorted, at most 200, without .git."""
    tools: tuple[str, ...] = ()
    """Names of the tools there are."""
    senses: tuple[SensorValue, ...] = ()
    """What sensors say, by name; none that is stale."""


@dataclass(frozen=True)
class Prompt:
    """A question to a mind."""

    purpose: Purpose
    system: str
    """The system prompt (its policy)."""
    messages: tuple[PromptMessage, ...]
    """What follows it."""
    situation: Situation
    max_tokens: int = 1024


@dataclass(frozen=True)
class Completion:
    """A mind's reply: raw text, which goes through the one parser."""

    text: str
    finish_reason: str
    usage: Usage
    model: str
    ms: float
    """Milliseconds that the caller waited."""
    constrained: bool = False
    """Whether a grammar constrained the decoding."""


class ScriptEnded(Exception):  # noqa: N818 - the end of a script is no error
    """The scripted mind has given its last reply: the run ends."""


class Mind(Protocol):
    """Who thinks and decides. One mind serves one agent; calls do not overlap."""

    kind: str
    """reflex, openai, scripted."""
    learns: bool
    """Whether it takes experiences: one that does not is brought none."""

    @property
    def model(self) -> str:
        """What the policy digest names."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply to `prompt`. A cancelled call leaves nothing behind.

        Raises ModelError when there is none, ScriptEnded (on a *think*) when a script has no more replies.
        """
        ...

    def learn(self, experience: ExperienceRecorded) -> None:
        """Take a recorded experience. The same revision twice changes nothing; a later one corrects. Never raises."""
        ...

    async def close(self) -> None:
        """Write down what was learnt, let go of connections. Twice is once."""
        ...

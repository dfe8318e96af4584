"""What the agent says of its own cycle: policy, thought, decision, act, reflection."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Action, Claim, Cut, GoalCheck, Outcome, PromptMessage, Unit, Usage
from conch_schemas.envelope import Event


class PolicySet(Event):
    """What a policy digest stands for: at the start and on every change."""

    TYPE: ClassVar = "policy.set"
    type: Literal["conch.v1.policy.set"] = "conch.v1.policy.set"
    mind: str
    """The kind of mind: reflex, openai, scripted."""
    model: str
    adapter: str | None = None
    system_prompt: str
    """Whole."""
    constraint: str | None = None
    """The decoding constraint (a grammar's digest), or None."""
    values: str = ""
    """Digest of the values file in force, or empty."""


class ThoughtFormed(Event):
    """A cycle has begun: the thought."""

    TYPE: ClassVar = "thought.formed"
    type: Literal["conch.v1.thought.formed"] = "conch.v1.thought.formed"
    thought: Cut
    need: str
    """The most pressing need, which led the thought."""
    pressing: dict[str, float]
    """priority × (0.5 + urgency) per need."""
    usage: Usage = Usage()
    model: str
    ms: float = Field(ge=0)


class ThoughtGrounded(Event):
    """The thought's claims were checked against workspace, memory, tools, goals and senses."""

    TYPE: ClassVar = "thought.grounded"
    type: Literal["conch.v1.thought.grounded"] = "conch.v1.thought.grounded"
    claims: tuple[Claim, ...]
    memory: tuple[str, ...]
    """Notes recalled for the thought: the memory context of the decision."""
    ms: float = Field(ge=0)

    def count(self, verdict: Literal["verified", "refuted", "unknown"]) -> int:
        """How many claims came out so."""
        return sum(claim.verdict == verdict for claim in self.claims)


class ActionDecided(Event):
    """The intent. Stored before anything is done."""

    TYPE: ClassVar = "action.decided"
    type: Literal["conch.v1.action.decided"] = "conch.v1.action.decided"
    messages: tuple[PromptMessage, ...]
    """What the mind was given, without the system prompt (its policy says that one)."""
    raw: str
    """The reply, cut."""
    raw_length: int = Field(ge=0)
    raw_sha256: str
    action: Action
    constrained: bool = False
    """Whether a grammar constrained the decoding."""
    guard: str | None = None
    """Why the guard blocks it; None: allowed."""
    usage: Usage = Usage()
    model: str
    finish_reason: str
    ms: float = Field(ge=0)


class ActionTaken(Event):
    """The act and its outcome: what every rule scores."""

    TYPE: ClassVar = "action.taken"
    type: Literal["conch.v1.action.taken"] = "conch.v1.action.taken"
    action: Action
    raw: str
    """The reply of the mind, cut."""
    raw_length: int = Field(ge=0)
    raw_sha256: str
    outcome: Outcome
    goals: tuple[GoalCheck, ...] = ()
    """The active goals' checks, after the act. Empty without an active goal."""
    needs: dict[str, Unit]
    """Satisfaction per need as the agent knew it when it decided."""
    thought: str = ""
    """The thought that led here, cut to 2,000 characters (whole in `thought.formed`)."""
    memory: tuple[str, ...] = ()
    """The memory context of the decision."""
    tools: tuple[str, ...] = ()
    """Names of the tools there were."""
    constrained: bool = False
    model: str
    usage: Usage = Usage()
    """Of the whole cycle so far."""
    ms: dict[str, float]
    """Milliseconds of think, ground, decide, act."""
    step: int = Field(default=0, ge=0)
    episode: str | None = None
    terminal: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """(cycle, step): the order of an agent's acts; a fold that has seen this place has seen this act."""
        return (self.cycle or 0, self.step)


class CycleReflected(Event):
    """The cycle is over."""

    TYPE: ClassVar = "cycle.reflected"
    type: Literal["conch.v1.cycle.reflected"] = "conch.v1.cycle.reflected"
    reflection: str
    """Empty in the cycles that do not reflect (every `cycle.reflect_every`-th does)."""
    sleep: float = Field(ge=0)
    """Seconds until the next cycle."""
    usage: Usage = Usage()
    """Of the reflection."""
    ms: float = Field(ge=0)

"""The events of the agent's cycle: policy, thought, grounding, decision, action, reflection."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import (
    Action,
    AnsweredMessage,
    Claim,
    Cost,
    Cut,
    GoalCheck,
    Outcome,
    PromptMessage,
    Unit,
    Usage,
)
from conch_schemas.decoding import Decoding
from conch_schemas.effect import MeasuredEffect
from conch_schemas.envelope import Event
from conch_schemas.task import TaskProgressed, TaskStep, task_step_id
from conch_schemas.team import TeamTurn
from conch_schemas.trace import passed_on


class PolicySet(Event):
    """The content behind a policy digest: published at the start and on every change."""

    TYPE: ClassVar = "policy.set"
    type: Literal["conch.v1.policy.set"] = "conch.v1.policy.set"
    mind: str
    """The kind of mind: reflex, openai, scripted."""
    model: str
    adapter: str | None = None
    system_prompt: str
    """The complete system prompt."""
    constraint: str | None = None
    """Digest of what decisions are held to, the kind of the constraint and the grammar of all actions; None: nothing,
    not found out yet, or recorded by a version that did not say it. `Decoding.constraint` says it of each act."""
    values: str = ""
    """Digest of the values file in force, or empty."""
    base: str = ""
    """Name of the model that the adapter is of; empty: there is no adapter."""
    generation: int | None = None
    """The adapter's generation in the lineage of this agent; None: there is no adapter."""
    evidence: str = ""
    """Id of the event that allowed the adapter to act; empty: there is none."""
    thinks: str = ""
    """Kind and model of the mind that thinks, where another one decides; else empty."""


class ThoughtFormed(Event):
    """A cycle has begun, with this thought."""

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
    cost: Cost | None = None
    """Price of the tokens; None: not known, as tokens were not counted or there is no price."""


class ThoughtGrounded(Event):
    """The thought's claims were checked against workspace, memory, tools, goals and sensors."""

    TYPE: ClassVar = "thought.grounded"
    type: Literal["conch.v1.thought.grounded"] = "conch.v1.thought.grounded"
    claims: tuple[Claim, ...]
    memory: tuple[str, ...]
    """Notes recalled for the thought: the memory context of the decision."""
    ms: float = Field(ge=0)

    def count(self, verdict: Literal["verified", "refuted", "unknown"]) -> int:
        """How many claims have this verdict."""
        return sum(claim.verdict == verdict for claim in self.claims)


class DecidedReply(Event):
    """What an event says of a decision: the question to the mind, its reply, the action that was read from it."""

    messages: tuple[PromptMessage, ...]
    """The mind's prompt, without the system prompt (the policy event has that one)."""
    raw: str
    """The reply, shortened."""
    raw_length: int = Field(ge=0)
    raw_sha256: str
    action: Action
    constrained: bool = False
    """Whether the decoding was held to a constraint: a grammar, a JSON schema or a call of a tool."""
    usage: Usage = Usage()
    model: str
    finish_reason: str
    ms: float = Field(ge=0)
    decoding: Decoding | None = None
    """How the reply was decoded; None: recorded by a version that did not say it."""
    cost: Cost | None = None
    """Price of the tokens; None: not known, as tokens were not counted or there is no price."""


class ActionDecided(DecidedReply):
    """The intent to act. Stored before anything is run."""

    TYPE: ClassVar = "action.decided"
    type: Literal["conch.v1.action.decided"] = "conch.v1.action.decided"
    guard: str | None = None
    """Why it is blocked, by a guardrail, by `tools.policy` or as it was not approved; None: allowed."""


class ActionTaken(Event):
    """The act and its outcome: the input of every reward rule."""

    TYPE: ClassVar = "action.taken"
    type: Literal["conch.v1.action.taken"] = "conch.v1.action.taken"
    action: Action
    raw: str
    """The reply of the mind, shortened."""
    raw_length: int = Field(ge=0)
    raw_sha256: str
    outcome: Outcome
    goals: tuple[GoalCheck, ...] = ()
    """The active goals' checks, after the act. Empty without an active goal."""
    needs: dict[str, Unit]
    """Satisfaction per need as known to the agent when it decided."""
    thought: str = ""
    """The thought behind this act, cut to 2,000 characters (complete in `thought.formed`)."""
    memory: tuple[str, ...] = ()
    """The memory context of the decision."""
    tools: tuple[str, ...] = ()
    """Names of the available tools."""
    constrained: bool = False
    model: str
    usage: Usage = Usage()
    """Tokens of the whole cycle so far."""
    ms: dict[str, float]
    """Milliseconds of think, ground, decide, act."""
    step: int = Field(default=0, ge=0)
    episode: str | None = None
    terminal: bool = False
    effect: MeasuredEffect | None = None
    """What the act brought about, as the agent measured it; None: not measured (an older version, another agent)."""
    decoding: Decoding | None = None
    """How the reply was decoded; None: recorded by a version that did not say it."""
    cost: Cost | None = None
    """Price of the thought and the decision; None: not known, as tokens were not counted or there is no price."""
    message: AnsweredMessage | None = None
    """The person's message that it answered; None: it answered none, or was recorded by a version that did not say
    it."""
    team: TeamTurn | None = None
    """The turn of a team's role in which it was made; None: the agent is no team."""
    progress: TaskStep | None = None
    """What the act was as a step of the task `episode`; the `task.progressed` behind it says the same, and counts no
    second time. None: it belongs to no task, or was recorded by a version that did not say it."""
    context_sha256: dict[str, str] = Field(default_factory=dict)
    """SHA-256, hexadecimal, of what the cycle's events before it say, by kind: `thought` (the whole text), `claims` and
    `messages` (those of `action.decided`). Each is taken over the canonical JSON (RFC 8785) of a list: of the text; of
    the claims, each a list of claim, about, verdict, evidence; of the messages, each a list of role and content. The
    mark of the act seals them with it. Empty: recorded by a version that did not say it."""

    def task_step(self) -> TaskProgressed | None:
        """The `task.progressed` that the agent publishes behind it, the same each time but for its `time`; None where
        the act does not say it."""
        if self.progress is None or self.episode is None or self.action_id is None:
            return None
        identity = task_step_id(self.id)
        return TaskProgressed(
            id=identity,
            source=self.source,
            subject=self.subject,
            agent=self.agent,
            cycle=self.cycle,
            action_id=self.action_id,
            causation_id=self.id,
            traceparent=passed_on(self.traceparent, identity),
            policy=self.policy,
            episode=self.episode,
            terminal=self.terminal,
            **self.progress.__dict__,
        )

    @property
    def place(self) -> tuple[int, int]:
        """(cycle, step): the order of an agent's acts, by which a fold recognises an act it has applied."""
        return (self.cycle or 0, self.step)


class CycleReflected(Event):
    """The cycle has ended."""

    TYPE: ClassVar = "cycle.reflected"
    type: Literal["conch.v1.cycle.reflected"] = "conch.v1.cycle.reflected"
    reflection: str
    """Empty in cycles without a reflection (every `cycle.reflect_every`-th has one)."""
    sleep: float = Field(ge=0)
    """Seconds until the next cycle."""
    usage: Usage = Usage()
    """Tokens of the reflection."""
    ms: float = Field(ge=0)
    cost: Cost | None = None
    """Price of the reflection; None: not known, as tokens were not counted or there is no price."""
    model: str = ""
    """The model that reflected; empty: none, or recorded by a version that did not say it."""

"""The protocol `Mind`: a prompt in, raw text out; and the values it works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from conch.actions import Registry
from conch.text import BYTES_PER_TOKEN
from conch_schemas import Action, Claim, Decoding, ExperienceRecorded, Goal, PromptMessage, Usage

if TYPE_CHECKING:
    from conch.memory import RecalledMemory

Purpose = Literal["think", "decide", "reflect"]
TokenSource = Literal["tokenizer", "estimate"]
"""What counts tokens: the model's own tokenizer, or the estimate of 3 bytes each."""


@dataclass(frozen=True)
class RewardLine:
    """One line of a reward; the amounts add up to the total."""

    step: str
    """As in the experience's breakdown: `part:<component>`, `cap:cycle`, `repetition`, …"""
    amount: float
    why: str
    """The explanation of the score behind it, or the line's own, at most 200 characters."""


@dataclass(frozen=True)
class ActReward:
    """The reward of an act, as of one revision of its experience. It has no component that is held out."""

    total: float
    lines: tuple[RewardLine, ...] = ()
    complete: bool = True
    """Whether a score of every part has come."""
    revision: int = 1


@dataclass(frozen=True)
class Lesson:
    """One of the agent's best or worst acts."""

    cycle: int
    action: Action
    """With shortened arguments."""
    status: str
    result: str
    """The beginning of its output, or its error, at most 200 characters."""
    reward: ActReward


@dataclass(frozen=True)
class RecentOutcome:
    """One of the last acts, as the agent remembers it."""

    cycle: int
    action: Action
    status: str
    output: str
    """The beginning, at most 2,000 characters."""
    error: str = ""
    """Why it failed, in one sentence."""
    result: str = ""
    """The output's beginning and end, as much as the prompts of the mind have room for, at least 8 KiB of each of the
    last three acts; `output` of earlier ones."""
    raw: str = ""
    """The beginning of the reply, where it is no valid action."""
    reward: ActReward | None = None
    """None: not known yet."""
    thought: str = ""
    """The thought that it came from, its first 300 characters."""


@dataclass(frozen=True)
class SensorValue:
    """The last reading of a sensor."""

    name: str
    value: bool | float | str
    unit: str
    age: float
    """Seconds since it was received, at least 0."""
    kept: bool = False
    """Whether the broker had retained it: then it was measured at an earlier, unknown time."""
    stale: bool = False
    """Whether it is too old to count as evidence."""


@dataclass(frozen=True)
class ConversationTurn:
    """A message of a person and the agent's answer to it, earlier in the same session."""

    said: str
    """The person's words, at most 1 KiB: beginning and end."""
    answer: str
    """The agent's, the same."""
    signals: tuple[str, ...] = ()
    """How people rated the answer: `satisfied`, `unsatisfied`, `corrected`."""
    correction: str = ""
    """The answer that would have been right, as a person said."""


@dataclass(frozen=True)
class RoleTurn:
    """The turn of a team's role."""

    team: str
    role: str
    step: int
    topology: str
    prompt: str
    """What the role is for."""
    reachable: tuple[str, ...]
    """The roles that it may send to."""
    messages: tuple[tuple[str, str], ...] = ()
    """Sender and text of the messages that it has not read, the oldest first."""
    tools: tuple[str, ...] | None = None
    """The tools that it may use; None: all."""
    turns: int = 0
    """Turns that the role had before."""


@dataclass(frozen=True)
class Situation:
    """The agent's state in a question, as values. A model reads it as text (`Prompt.messages`)."""

    agent: str
    cycle: int
    needs: Mapping[str, float]
    """Satisfaction, 0..1."""
    pressing: Mapping[str, float]
    """priority × (0.5 + urgency)."""
    need: str
    """The most pressing need."""
    goals: tuple[Goal, ...] = ()
    """The active goals, as the mind may know them: the check of a hidden one is blank (`Goal.as_told`)."""
    reached: tuple[str, ...] = ()
    """The statements of the goals that were reached last, the newest last, at most 10."""
    proposed: frozenset[str] = frozenset()
    """Ids of those that the agent set itself and no person has accepted."""
    may_propose: bool = False
    """Whether the agent may set a goal itself now, by the tool `goal`."""
    measures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By goal: the best and the last measure of its check, 0..1; a goal that was not checked yet is left out."""
    raised_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By need: the events that raise its satisfaction, the strongest first."""
    lessons: tuple[Lesson, ...] = ()
    """The best and the worst own acts, by reward, the best first."""
    waiting: tuple[str, ...] = ()
    """Later messages that wait for an answer, the oldest first, at most 20."""
    message: str | None = None
    """The oldest unanswered message of a person."""
    conversation: tuple[ConversationTurn, ...] = ()
    """What was said before in the session of that message, the oldest first, at most 8 turns."""
    thought: str = ""
    """This cycle's thought; empty while thinking."""
    claims: tuple[Claim, ...] = ()
    memory: tuple[str, ...] = ()
    """Notes recalled for the thought."""
    recalled: tuple[RecalledMemory, ...] = ()
    """Memories of earlier cycles that fit the state, the best first."""
    recent: tuple[RecentOutcome, ...] = ()
    """The last acts, oldest first: 10, or more where the prompts of the mind have room for them."""
    files: tuple[str, ...] = ()
    """The workspace's files, relative paths, sorted, at most 200, without .git."""
    tools: tuple[str, ...] = ()
    """Names of the available tools, without those whose every call is blocked for want of a sandbox."""
    senses: tuple[SensorValue, ...] = ()
    """Sensor readings, by name; none that is stale."""
    turn: RoleTurn | None = None
    """The role that has the turn; None: the agent is no team."""


@dataclass(frozen=True)
class PromptPart:
    """What a section of a prompt takes, and what was left out of it."""

    name: str
    tokens: int
    """As `Prompt.counted` says."""
    entries: int = 1
    """Entries that there were, such as acts or files."""
    left_out: int = 0
    """Entries that are not in the prompt."""
    shortened: int = 0
    """Entries that are in it in part."""


@dataclass(frozen=True)
class AskedAdapter:
    """The adapter under which a model is asked."""

    digest: str
    served_as: str
    """Its name at the engine."""
    is_echoed: bool = True
    """Whether the engine names it in its replies; then one that names another model is none of it."""


class GrowingReply(Protocol):
    """A reply while it comes."""

    @property
    def so_far(self) -> str:
        """Its text as far as it has come."""
        ...


@dataclass
class ReplyProgress:
    """How far a reply has come; the mind that gives it keeps it up to date."""

    characters: int = 0
    """Characters of the reply and its reasoning so far."""
    reply: GrowingReply | None = None
    """The reply that grows; None: no part of it has come, or the mind gives its reply in one piece."""
    unread: int = 0
    """Replies to this question that could not be read for a reason of the transport: status, framing, JSON type."""

    @property
    def tokens(self) -> int:
        """Tokens of the reply so far, by the estimate."""
        return -(-self.characters // BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Prompt:
    """A question to a mind."""

    purpose: Purpose
    system: str
    """The system prompt (its policy)."""
    messages: tuple[PromptMessage, ...]
    """The messages after the system prompt."""
    situation: Situation
    max_tokens: int = 1024
    parts: tuple[PromptPart, ...] = ()
    """Its sections in their order, the system prompt first."""
    counted: TokenSource = "estimate"
    """What counted the tokens of its parts."""
    registry: Registry | None = None
    """The tools whose calls the reply may be held to; None: any text is a reply."""
    adapter: AskedAdapter | None = None
    """The adapter that is to decide; None: the model as it is. Minds that serve none pass over it: what a reply was
    decoded under is its `Decoding.adapter`."""
    may_go_on: bool = field(default=True, compare=False)
    """Whether the rest of a reply that is cut off may be asked for: the budget has room for that."""
    progress: ReplyProgress | None = field(default=None, compare=False)
    """Where the mind notes how far its reply has come; None: that is not asked for."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt, as `counted` says."""
        return sum(part.tokens for part in self.parts)


@dataclass(frozen=True)
class Completion:
    """A mind's reply: raw text for the one parser."""

    text: str
    finish_reason: str
    usage: Usage
    model: str
    ms: float
    """Milliseconds that the caller waited."""
    constrained: bool = False
    """Whether the decoding was held to a constraint: a grammar, a JSON schema or a call of a tool."""
    decoding: Decoding | None = None
    """What the mind knows of the decoding; None: nothing beyond the other fields."""
    cost: float | None = None
    """Price of the measured tokens, in `mind.currency`; None: unknown."""
    unread: int = 0
    """Replies to the question before it that could not be read for a reason of the transport."""


class ScriptEnded(Exception):  # noqa: N818 - the end of a script is no error
    """The scripted mind has given its last reply: the run ends."""


class Mind(Protocol):
    """A source of thoughts and decisions. One mind serves one agent; calls do not overlap."""

    @property
    def kind(self) -> str:
        """reflex, openai, local, transformers, scripted, or the name of its entry point in `conch.minds`."""
        ...

    @property
    def learns(self) -> bool:
        """Whether it learns from experiences; without it, `learn` is never called."""
        ...

    @property
    def model(self) -> str:
        """The model's name in the policy digest."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply to `prompt`. A cancelled call leaves nothing behind.

        Raises ModelError when there is none, AdapterError when the endpoint does not reply under `prompt.adapter`,
        ScriptEnded (on a *think*) when a script has no more replies.
        """
        ...

    def learn(self, experience: ExperienceRecorded) -> None:
        """Learn from a recorded experience. The same revision changes nothing; a later one corrects. Never raises."""
        ...

    async def close(self) -> None:
        """Save what was learnt and close connections. A second call does nothing."""
        ...


class MindWrapper:
    """A mind that passes all on to another one; a subclass changes how it is asked."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind

    @property
    def kind(self) -> str:
        """The other's kind."""
        return self.mind.kind

    @property
    def learns(self) -> bool:
        """Whether the other one learns."""
        return self.mind.learns

    @property
    def model(self) -> str:
        """The other's model."""
        return self.mind.model

    async def complete(self, prompt: Prompt) -> Completion:
        """The other's reply. Raises what it raises."""
        return await self.mind.complete(prompt)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Let the other one learn."""
        self.mind.learn(experience)

    async def close(self) -> None:
        """Close the other one. A second call does nothing."""
        await self.mind.close()

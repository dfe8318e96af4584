"""Values that several events hold: actions, outcomes, goal checks, token usage, claims."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from conch_schemas.envelope import Value

ActionKind = Literal["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]
GoalOutcome = Literal["achieved", "partial", "neutral", "error"]
Effect = Literal["read", "workspace", "world"]
OutcomeStatus = Literal["success", "error", "timeout", "blocked", "unknown", "none"]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]


class Action(Value):
    """A parsed reply of the mind. Made by `conch.actions.parse`, once."""

    kind: ActionKind
    """The kind that the reply began with; an invalid TOOL keeps its kind, prose is INVALID."""
    valid: bool
    """Whether the reply follows the grammar and the tools' signatures."""
    reason: str | None = None
    """Why it is invalid, in one sentence; None if it is valid."""
    tool: str | None = None
    """The tool's name, lower case, as far as it was parsed."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """The arguments, as far as they were parsed."""
    text: str | None = None
    """The reason of DO_NOTHING, the topic of REFLECT; may be empty."""
    declared_effect: Effect | None = None
    """What the tool declares that this operation may change; None: it declares nothing, or the act was recorded by a
    version that did not say it. It is a declaration, not a measurement of what the act changed."""

    @property
    def skill(self) -> str:
        """tool × operation, e.g. `filesystem.read`; the kind in lower case where no tool is used."""
        if self.kind != "TOOL" or not self.valid or self.tool is None:
            return self.kind.lower() if self.valid else "invalid"
        operation = self.args.get("operation")
        return f"{self.tool}.{operation}" if isinstance(operation, str) else self.tool


class Cut(Value):
    """A text shortened for an event: head and tail of one that was too long, with the whole's length and digest."""

    text: str
    """At most 64 KiB once encoded as JSON; a line `[… N characters left out …]` replaces the middle."""
    length: int = Field(ge=0)
    """Characters of the whole."""
    sha256: str
    """SHA-256 of the whole, UTF-8, hexadecimal."""


class Outcome(Value):
    """The outcome of an act: a structured status, never inferred from the output."""

    status: OutcomeStatus
    """`none`: nothing to execute. `unknown`: the process crashed between the intent and its outcome."""
    output: Cut
    """The tool's output."""
    error: str | None = None
    """One sentence, where status is error, timeout, blocked or unknown."""
    exit_code: int | None = None
    """Exit code of a program, if one ran."""
    ms: float = Field(default=0.0, ge=0)
    """Duration of the act in milliseconds, monotonic clock."""
    answered: str | None = None
    """The id of the message that the tool `reply` answered."""
    proposed: str | None = None
    """The id of the goal that the tool `goal` proposed; its `goal.set` follows."""
    unavailable: bool = False
    """Whether the tool could not be used for a reason outside of the agent, as its device could not be reached: the act
    says nothing of the agent, so its execution is not applicable and it is no error."""


class AnsweredMessage(Value):
    """The person's message that an act answered, and what people did about the answer before it."""

    id: str
    """The id of the `message.received`."""
    text: str
    """The person's words, cut to 4 KiB (complete in `message.received`)."""
    sender: str = "user"
    session: str | None = None
    """The conversation that it belongs to; None: it stands alone."""
    signals: tuple[str, ...] = ()
    """Ratings that people gave the session's answer before this one: `satisfied`, `unsatisfied`, `corrected`. They come
    from people's acts, never from the words of a message."""
    stopping_suggestion: str | None = None
    """The reason of a person who rated the session's answer before this one with `stop`; None: no person did."""


class GoalCheck(Value):
    """The result of a goal's own check after the act."""

    goal: str
    """The goal's id."""
    statement: str
    """The goal's statement."""
    outcome: GoalOutcome
    """`partial`: the measure rose above its best so far, by at least 0.05 (`effects.goal_rise`).
    `error`: the check could not be run; it shows nothing."""
    measure: float
    """The check's measure, 0..1 (1 = achieved)."""
    best: float
    """The best measure before this act."""
    failed_before: bool = False
    """Whether the check failed after an earlier act that changed its measure or ran it: achieving it then is a novel
    problem solved."""
    detail: str = ""
    """One line from the check."""
    accepted: bool = True
    """Whether a person or the home set the goal, or a person has accepted it; a goal that the agent set itself pays
    nothing before."""


class Usage(Value):
    """Tokens of a completion, as the endpoint counted them; 0 where no model was asked."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)


class Cost(Value):
    """What an endpoint charges for its replies: the measured tokens by the prices of `mind.price`."""

    amount: float = Field(ge=0)
    currency: str
    """As `mind.currency` names it."""


class PromptMessage(Value):
    """One message of the mind's prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Claim(Value):
    """One claim of a thought, with the verdict of its check."""

    claim: str
    """The words of the thought."""
    about: Literal["workspace", "memory", "tool", "goal", "sense"]
    verdict: Literal["verified", "refuted", "unknown"]
    evidence: str
    """What was checked, and what was found."""

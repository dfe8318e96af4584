"""The joined experience: one action with all its scores and their total."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Action, Claim, Cost, GoalCheck, Outcome, PromptMessage, Unit, Usage
from conch_schemas.decoding import Decoding
from conch_schemas.envelope import Event, Value
from conch_schemas.reward import PartRole, ScoreStatus
from conch_schemas.team import TeamTurn


class ScoredPart(Value):
    """The score of one component, with its weight in the total."""

    component: str
    value: float | None
    weight: float
    status: ScoreStatus
    explanation: str
    scorer: str
    version: str
    role: PartRole = "paid"
    """Role of its part in the weight set; a score without a part is `paid`, with weight 0."""


class Line(Value):
    """One line of the breakdown; the amounts add up to the total."""

    step: str
    """In order: `part:<component>` and `cap:<component>`, `diversity`, `cap:cycle`, `starving`, `repetition`,
    `gate:<name>`."""
    amount: float
    why: str = ""


class ExperienceRecorded(Event):
    """An experience, as of its revision. A later revision replaces an earlier one."""

    TYPE: ClassVar = "experience.recorded"
    type: Literal["conch.v1.experience.recorded"] = "conch.v1.experience.recorded"
    step: int = Field(default=0, ge=0)
    seq: int = Field(ge=1)
    """Stream sequence of the act: the order of experiences."""
    acted_at: datetime
    """When the act was published; for people."""
    thought: str = ""
    claims: tuple[Claim, ...] = ()
    memory: tuple[str, ...] = ()
    messages: tuple[PromptMessage, ...] = ()
    raw: str
    action: Action
    constrained: bool = False
    outcome: Outcome
    goals: tuple[GoalCheck, ...] = ()
    scores: tuple[ScoredPart, ...]
    """One per part of the weight set, in its order; then scores without a part, with weight 0."""
    total: float
    """Sum of `breakdown`."""
    breakdown: tuple[Line, ...]
    coverage: Unit
    """Scored weight ÷ (whole weight − weight of the not applicable); 1 where nothing was applicable."""
    complete: bool
    """A score of every part that is waited for has come, with any status, in time or at a later revision."""
    revision: int = Field(ge=1)
    weights: str
    """Version of the weight set."""
    needs_before: dict[str, Unit] | None = None
    needs_after: dict[str, Unit] | None = None
    reflection: str = ""
    model: str
    usage: Usage = Usage()
    ms: dict[str, float]
    episode: str | None = None
    terminal: bool = False
    skills_on_offer: int = Field(default=0, ge=0)
    """Number of tool × operation pairs that the agent could choose from; 0: not known."""
    decoding: Decoding | None = None
    """How the reply was decoded; None: recorded by a version that did not say it."""
    cost: Cost | None = None
    """Price of the thought and the decision; None: not known, as tokens were not counted or there is no price."""
    team: TeamTurn | None = None
    """The turn of a team's role in which it acted; None: the agent is no team."""

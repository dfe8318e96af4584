"""What the API answers with, as types: the document describes them, and so do the tests of the commands' --json."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from conch_schemas import (
    Action,
    Claim,
    Goal,
    GoalCheck,
    Line,
    Mark,
    Outcome,
    PromptMessage,
    Score,
    ScoredPart,
    Usage,
)
from conch_schemas.action import OutcomeStatus


class Problem(BaseModel):
    """Why something could not be done (RFC 9457)."""

    schema_: Literal["conch.v1.problem"] = Field(alias="schema")
    status: int
    title: str
    detail: str
    """One sentence or two: what is wrong, and what to do."""


class CycleRow(BaseModel):
    """A cycle as of its latest revision."""

    agent: str
    cycle: int
    action_id: str
    time: str
    thought: str
    raw: str
    action: Action
    output: str
    outcome: OutcomeStatus
    scores: list[ScoredPart]
    total: float
    coverage: float
    complete: bool
    revision: int
    needs_before: dict[str, float] | None
    needs_after: dict[str, float] | None
    policy: str | None
    ms: dict[str, float]


class WholeCycle(CycleRow):
    """A cycle with everything that is known of it."""

    claims: list[Claim]
    memory: list[str]
    messages: list[PromptMessage]
    goals: list[GoalCheck]
    breakdown: list[Line]
    weights: str
    reflection: str
    model: str
    usage: Usage
    trace_id: str | None
    outcome_detail: Outcome
    marks: list[Mark]


class Cycles(BaseModel):
    """`conch cycle list --json`."""

    schema_: Literal["conch.v1.cycles"] = Field(alias="schema")
    cycles: list[CycleRow]


class Cycle(BaseModel):
    """`conch cycle show --json`."""

    schema_: Literal["conch.v1.cycle"] = Field(alias="schema")
    cycle: WholeCycle


class AgentRow(BaseModel):
    """An agent that acts, or has acted."""

    agent: str
    running: bool
    """The run in progress has it."""
    last_cycle: int | None
    mean: float | None
    """Of the totals of its last 100 cycles."""


class Agents(BaseModel):
    """Every agent of the home."""

    schema_: Literal["conch.v1.agents"] = Field(alias="schema")
    agents: list[AgentRow]


class Status(BaseModel):
    """`conch status --json`."""

    schema_: Literal["conch.v1.status"] = Field(alias="schema")
    home: str
    running: bool
    pid: int | None
    started: str | None
    workspace: str
    metrics: str | None
    processes: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    set_aside: list[dict[str, Any]]
    agent: dict[str, Any] | None
    agents: list[dict[str, Any]]
    states: dict[str, int]
    bus_error: str | None
    stream: dict[str, int] | None
    consumers: list[Lag] | None
    held: list[str]
    left_over: list[str]
    dead_letters: int | None
    alarms: list[dict[str, Any]] | None
    disk: dict[str, Any] | None
    store: dict[str, int] | None
    figures: dict[str, Any] | None
    components: list[dict[str, Any]]
    last_cycle: int | None
    unscored: int
    needs: dict[str, float]


class RewardRow(BaseModel):
    """A component by one scorer over the last experiences."""

    component: str
    scorer: str
    weight: float
    role: str
    range: tuple[float, float] | None
    version: str
    count: int
    scored: int
    coverage: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    errors: int
    timeouts: int
    lag: int | None


class Rewards(BaseModel):
    """`conch reward list --json`."""

    schema_: Literal["conch.v1.rewards"] = Field(alias="schema")
    rewards: list[RewardRow]
    set_aside: list[dict[str, Any]]


class NeedRow(BaseModel):
    """A need: 0 starved, 1 satisfied."""

    need: str
    satisfaction: float
    priority: float
    pressing: float
    most: bool


class Needs(BaseModel):
    """`conch need list --json`."""

    schema_: Literal["conch.v1.needs"] = Field(alias="schema")
    needs: list[NeedRow]


class NeedChange(BaseModel):
    """A change of needs, with what made it."""

    agent: str
    cycle: int | None
    action_id: str | None
    time: str
    before: dict[str, float]
    after: dict[str, float]
    drift: dict[str, float]
    changes: list[dict[str, Any]]
    most_pressing: str


class NeedChanges(BaseModel):
    """`conch need history --json`."""

    schema_: Literal["conch.v1.need_changes"] = Field(alias="schema")
    changes: list[NeedChange]


class GoalRow(Goal):
    """An active goal."""

    best: float | None
    """The best that its check has measured."""
    tried: int


class Goals(BaseModel):
    """`conch goal list --json`."""

    schema_: Literal["conch.v1.goals"] = Field(alias="schema")
    goals: list[GoalRow]


class Marks(BaseModel):
    """`conch mark list --json`."""

    schema_: Literal["conch.v1.marks"] = Field(alias="schema")
    marks: list[Mark]


class Verified(BaseModel):
    """`conch mark verify --json`."""

    schema_: Literal["conch.v1.verification"] = Field(alias="schema")
    agent: str
    ok: bool
    acts: int
    marks: int
    waiting: int
    removed: dict[str, Any] | None
    problems: list[dict[str, Any]]


class ConsumerRow(BaseModel):
    """A consumer that has a place on the bus."""

    name: str
    acknowledged: int
    lag: int
    letters: int


class Consumers(BaseModel):
    """`conch consumer list --json`."""

    schema_: Literal["conch.v1.consumers"] = Field(alias="schema")
    last: int
    consumers: list[ConsumerRow]


class Lag(BaseModel):
    """How many events wait for a consumer."""

    name: str
    lag: int


class Lags(BaseModel):
    """`conch consumer lag --json`."""

    schema_: Literal["conch.v1.lag"] = Field(alias="schema")
    last: int
    consumers: list[Lag]


class LetterRow(BaseModel):
    """A dead letter."""

    id: str
    subject: str
    seq: int
    consumer: str
    version: str
    reason: str
    tries: int
    time: str
    agent: str


class Letters(BaseModel):
    """`conch dlq list --json`."""

    schema_: Literal["conch.v1.letters"] = Field(alias="schema")
    letters: list[LetterRow]


class LetterSettled(BaseModel):
    """What became of a dead letter."""

    schema_: Literal["conch.v1.letter_settled"] = Field(alias="schema")
    id: str
    settled: Literal["retried", "dropped"]


class BusInfo(BaseModel):
    """`conch bus info --json`."""

    schema_: Literal["conch.v1.bus"] = Field(alias="schema")
    url: str
    embedded: bool
    server: dict[str, Any]
    durability: str
    stream: dict[str, Any]
    bucket: dict[str, int]
    consumers: list[dict[str, Any]]
    peers: list[dict[str, Any]]
    warnings: list[str]


class Config(BaseModel):
    """`conch config show --json`."""

    schema_: Literal["conch.v1.config"] = Field(alias="schema")
    file: str | None
    settings: dict[str, Any]
    origins: dict[str, str]


class MetricsAt(BaseModel):
    """Where the figures of the run are scraped."""

    schema_: Literal["conch.v1.metrics"] = Field(alias="schema")
    url: str | None
    """None: no run is in progress, or it has no exporter."""


class State(BaseModel):
    """`conch pause --json`, `conch resume --json`."""

    schema_: Literal["conch.v1.state"] = Field(alias="schema")
    state: Literal["paused", "running"]


class Told(BaseModel):
    """`conch tell --json`."""

    schema_: Literal["conch.v1.told"] = Field(alias="schema")
    id: str
    running: bool
    """Whether the agent reads it at once; else when it runs."""
    answer: None


class GoalDone(BaseModel):
    """`conch goal add --json`, `conch goal drop --json`."""

    schema_: Literal["conch.v1.goal"] = Field(alias="schema")
    goal: str


class Scored(BaseModel):
    """`conch reward score --json`."""

    schema_: Literal["conch.v1.scored"] = Field(alias="schema")
    id: str
    agent: str
    cycle: int
    score: Score
    total: float | None
    """Once it is joined; None: it is not yet."""
    total_before: float | None
    revision: int | None

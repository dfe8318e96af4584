"""The values that a store takes and gives, whatever keeps the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple

from conch.experience.queries.bodies import ShownLine, ShownScore
from conch_schemas import ActionTaken, ExperienceRecorded, PromptMessage


class ExperiencePoint(NamedTuple):
    """An experience as of its latest revision, without its words."""

    cycle: int
    seq: int
    acted_at: datetime
    """UTC."""
    outcome: str
    kind: str
    tool: str | None
    """Like `skill`, its first 100 characters."""
    skill: str
    valid: bool
    total: float
    coverage: float
    complete: bool
    revision: int
    scores: tuple[ShownScore, ...]
    """In the order of the weight set; then what was scored beside it, with weight 0."""
    breakdown: tuple[ShownLine, ...]
    """What adds up to the total."""
    needs_after: Mapping[str, float] | None


class GoalMove(NamedTuple):
    """An act that moved a goal: its score *goal* is above 0."""

    cycle: int
    reached: bool
    """Whether the goal was reached: the score is the greatest of its range."""
    why: str
    """The score's explanation."""


class LifeBlock(NamedTuple):
    """Sums over the totals of removed experiences, of some neighbouring cycles."""

    cycle: int
    """The first cycle that the block may have."""
    acts: int
    total: float
    """Sum of the totals."""
    low: float
    high: float


class StateGoal(NamedTuple):
    """A goal that was active when the agent decided."""

    goal: str
    statement: str
    best: float
    """The best measure of its check up to then, 0..1."""


@dataclass(frozen=True)
class DecisionState:
    """What an agent knew when it decided: the state of a Markov decision process, as far as it was observed."""

    cycle: int
    step: int
    action_id: str
    """The act that it decided."""
    needs: Mapping[str, float] | None
    """Satisfaction by need, 0..1, before the act; None: not known."""
    goals: tuple[StateGoal, ...]
    observation: tuple[PromptMessage, ...]
    """The messages that the mind was given; empty where they are not known."""

    @classmethod
    def of(
        cls,
        act: ActionTaken | ExperienceRecorded,
        needs: Mapping[str, float] | None,
        observation: tuple[PromptMessage, ...],
    ) -> DecisionState:
        """The state in which this act was decided."""
        goals = tuple(StateGoal(check.goal, check.statement, check.best) for check in act.goals)
        return cls(act.cycle or 0, act.step, act.action_id or "", needs, goals, observation)


@dataclass(frozen=True)
class Transition:
    """An experience with the state that it was decided in and the one it led to."""

    experience: ExperienceRecorded
    next_state: DecisionState | None
    """The state of the agent's next act; None until that one is stored."""

    @property
    def state(self) -> DecisionState:
        """The state that the act was decided in."""
        return DecisionState.of(self.experience, self.experience.needs_before, self.experience.messages)


class AdapterAct(NamedTuple):
    """An act with the adapter that decided it."""

    cycle: int
    acted: float
    """Seconds since the epoch."""
    adapter: str | None
    """Digest; None: the model alone."""
    total: float


class SkillBucket(NamedTuple):
    """What one skill earned in neighbouring cycles."""

    bucket: int
    """Of cycle n it is n // width."""
    skill: str
    cycles: int
    total: float
    """Sum of the totals."""


class SkillTotal(NamedTuple):
    """An experience as of its latest revision, with its skill and its total alone."""

    cycle: int
    skill: str
    total: float


class DecidedAct(NamedTuple):
    """An act with what decided it, and in which state."""

    cycle: int
    policy: str | None
    """Digest; None: not known."""
    adapter: str | None
    """Digest; None: the model alone."""
    state: str | None
    """As `Decoding.state_key`."""


class CycleCounts(NamedTuple):
    """How many of the last cycles were alike in these."""

    outcome: str
    kind: str
    tool: str | None
    skill: str
    need: str | None
    cycles: int


@dataclass(frozen=True)
class CycleFilter:
    """Which cycles are meant: those that match all that is named. A number beyond 64 bits counts as the largest."""

    outcome: str | None = None
    kind: str | None = None
    tool: str | None = None
    skill: str | None = None
    need: str | None = None
    """The one that was least satisfied before the act, as known at the latest revision."""
    rule: str | None = None
    """A component that said something of the act: a score other than 0, or an error."""
    goal: str | None = None
    """The id of a goal that the act moved: its own check came further than ever, or achieved it."""
    complete: bool | None = None
    least: float | None = None
    """The total is this or more."""
    most: float | None = None
    """The total is this or less."""
    first: int | None = None
    """The lowest cycle."""
    last: int | None = None
    """The highest cycle."""
    text: str | None = None
    """Stands in the thought, the reply or the action, in whatever case. The other conditions are looked at first: this
    one reads the facts themselves."""


MOST_RANKED: Final = 5_000
"""Experiences of which a body is read to put them in order: 90 ms of processor time, with small facts."""


class CycleOrder(NamedTuple):
    """The order of a list of cycles; of equals the newest first."""

    by: Literal["cycle", "need", "skill", "outcome", "ms", "total"] = "cycle"
    """ms: milliseconds from the thought to the end of the act; need: the one that was least satisfied before it."""
    falling: bool = True
    """The greatest first, or of words the last in the alphabet. What has no value stands at the end either way."""


@dataclass(frozen=True)
class ComponentStats:
    """One scorer's component over the last experiences."""

    component: str
    scorer: str
    version: str
    """The one that counted last."""
    weight: float
    """In the newest of these experiences."""
    count: int
    """Experiences that show it."""
    scored: int
    mean: float | None
    """Of the scored values; None without any."""
    p50: float | None
    """Nearest rank, like p95, of the values of kept experiences alone; None without any."""
    p95: float | None
    errors: int
    timeouts: int
    coverage: float
    """scored ÷ (count − not applicable); 1 where nothing was applicable."""


@dataclass(frozen=True)
class ExperienceSummary:
    """The last experiences in a few numbers."""

    count: int
    """How many there are to speak of."""
    mean_total: float | None
    """None without any."""
    coverage: float | None
    """Mean; None without any."""
    incomplete: int
    outcomes: dict[str, int]
    """Outcome status -> how often, most frequent first."""


@dataclass(frozen=True)
class CostSummary:
    """What the last cycles cost, thought and decision."""

    amounts: dict[str, float]
    """Currency -> sum over the cycles whose cost is known."""
    known: int
    """Cycles whose cost is known."""
    unknown: int
    """Cycles that used tokens and whose cost is not known: the tokens were not counted, or had no price."""


@dataclass(frozen=True)
class PendingActs:
    """What holds up the recording of acts."""

    acts: int
    """That wait for scores."""
    parts: tuple[str, ...]
    """Components that are missing, in the order of the weight set; none, where a weight set itself is."""


@dataclass(frozen=True)
class StreamLoss:
    """The stream that the store read was replaced by another one: what stood on it and was not joined is gone."""

    cycle: int | None
    """The agent's last act of before; None: it had not acted."""
    mark: int | None
    """Sequence of its last mark of before; None: there was none."""


@dataclass(frozen=True)
class ScoredSince:
    """From where on acts are meant: both hold."""

    cycle: int = 0
    """The first cycle."""
    time: datetime | None = None
    """The first moment; None: whenever."""

    @property
    def stamp(self) -> float:
        """Seconds since the epoch."""
        return float("-inf") if self.time is None else self.time.timestamp()


@dataclass(frozen=True)
class UnscoredActs:
    """What one scorer's version has left unscored of an agent's acts. Made by `BackfillReader.unscored`."""

    agent: str
    scorer: str | None
    """None: no scorer, so every act counts as unscored."""
    version: str | None
    since: ScoredSince
    acts: int
    """That are meant, scored or not."""
    missing: int
    """Of those, not scored."""
    upto: int
    """The place of the agent's last act: what comes later is left to whoever scores live."""
    removed: int = 0
    """Acts that retention removed: they are not scored. Of a day on which some of them were meant all are counted."""


class RecordedAct(NamedTuple):
    """An act as the store has it."""

    act: ActionTaken
    wanted: bool
    """Whether it is among those that are meant, and not scored."""


@dataclass(frozen=True)
class ScorerVersion:
    """Who says a component, in which version, and how often it did."""

    component: str
    scorer: str
    version: str
    count: int
    range: tuple[float, float]
    """The least and the greatest value that it can take, by its own words."""


class RecordedScore(NamedTuple):
    """A score as compared: all but its words."""

    act: int
    """The act's number in this store."""
    agent: str
    cycle: int
    version: str
    status: str
    value: float | None


class SampleRow(NamedTuple):
    """An experience as of its latest revision, in the columns that a sample is drawn by."""

    act: int
    """The act's number in this store, which it keeps."""
    seq: int
    agent: str
    cycle: int
    outcome: str
    tool: str | None
    skill: str
    need: str | None
    """The least satisfied one before the act; None: not known."""
    total: float


class SampleChanges(NamedTuple):
    """What became of experiences, at one moment."""

    upto: int
    """The number of the store's last change: what comes later has a higher one."""
    rows: list[SampleRow]
    """By `seq`."""
    removed: dict[str, tuple[int, int]]
    """Agent -> (experiences' acts that retention has removed so far, the last cycle that it removed)."""


class Removal(NamedTuple):
    """Cycles and marks of one agent that were removed on one day for one reason."""

    why: str
    """The setting that they were removed by."""
    first_cycle: int
    last_cycle: int
    acts: int
    acted: float
    """Time of the last of these acts, in seconds since the epoch."""
    time: datetime
    """When the last of them was removed."""
    first_mark: int | None
    """Sequence; None: no mark was removed, like `last_mark` and `hash`."""
    last_mark: int | None
    marks: int
    hash: str | None
    """Of the last mark that was removed: the next one in the chain must follow it."""


@dataclass(frozen=True)
class RetentionLimits:
    """How much of a store is kept; whichever bound is reached first."""

    seconds: float | None = None
    """Age of an act beyond which its cycle is removed; None: no bound."""
    bytes: int | None = None
    """Bytes in use beyond which the oldest cycles are removed; None: no bound."""
    grace: float = 0.0
    """Seconds from an act in which its scores may still come: it is not removed before."""


@dataclass
class PruneResult:
    """What was removed at one time."""

    acts: int = 0
    marks: int = 0
    actions: list[str] = field(default_factory=list)
    """Ids of these acts."""
    upto: dict[str, int] = field(default_factory=dict)
    """Agent -> its last removed cycle."""
    unverified: set[str] = field(default_factory=set)
    """Agents whose marks stay, because those that were due do not verify."""


def removal_of(removals: Iterable[Removal], cycle: int) -> Removal | None:
    """The removal that a cycle was part of; None where it was none."""
    return next((one for one in removals if one.first_cycle <= cycle <= one.last_cycle), None)


def removed_words(removals: Iterable[Removal], agent: str, cycle: int) -> str:
    """A sentence about a cycle that was removed; empty where it was not."""
    removal = removal_of(removals, cycle)
    return (
        "" if removal is None else f"cycle {cycle} of {agent} was removed by {removal.why} on {removal.time:%Y-%m-%d}"
    )

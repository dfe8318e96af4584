"""Settings of rewards: components, judges, the constitution, and the watchers."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from conch.config.model.agent import MindSettings
from conch.config.model.section import WEIGHT_TOLERANCE, SettingsSection
from conch_schemas import LARGEST_SCORE

BUILTIN_WEIGHTS = {"format": 0.30, "execution": 0.25, "needs": 0.20, "goal": 0.15, "exploration": 0.10}
"""Weight of each of the five parts that make a cycle's reward; they sum to 1."""

PROGRESS_WEIGHT = 0.1
"""Weight of *progress* in the reward of an act that belongs to a task; the others shrink by it."""
WATCHED_COMPONENTS = ("intrinsic", "alignment", "progress")
"""Built-in components without a weight of every act by default; `rewards.weights` may give them one."""
BUILTIN_COMPONENTS = (*BUILTIN_WEIGHTS, *WATCHED_COMPONENTS, "diversity", "starving", "repetition", "ethical")
"""Names that a user's own rule cannot have."""

TEST_PROGRAMS = (
    *("pytest", "python -m pytest", "python -m unittest", "tox", "nox"),
    *("make test", "make check", "npm test", "npm run test", "cargo test", "go test"),
)
"""The usual test programs of Python, C, JavaScript, Rust and Go; `python` stands for every version of it."""


def _is_rule_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,47}", name):
        raise ValueError("the name is small letters, digits, `_` and `-`, at most 48, a letter first")
    if name in BUILTIN_COMPONENTS:
        raise ValueError(f"the name {name} is a built-in component's: choose another one")
    return name


RuleName = Annotated[str, AfterValidator(_is_rule_name)]
"""Name of a component that is not built in."""


class OutsidePartSettings(SettingsSection):
    """A component that is scored outside of Conch."""

    weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the total, 0..1; 0: recorded, not paid."""
    range: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest possible value."""
    scorer: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,47}$")] | None = None
    """Scorer named in its events; none: a scorer of the component's own name. `human`: a person, not waited for."""
    deadline: Annotated[float, Field(gt=0)] | None = None
    """Seconds from the act after which it is recorded as timeout, if it has a weight; none: rewards.deadline."""
    held_out: bool = False
    """Whether it is never paid and never used for training: watchers compare it with the total."""

    @model_validator(mode="after")
    def _from_least_to_greatest(self) -> Self:
        low, high = self.range
        if not -LARGEST_SCORE <= low < high <= LARGEST_SCORE:
            raise ValueError(f"the range {self.range} is not two numbers within ±{LARGEST_SCORE:g}, the lesser first")
        return self


class JudgeSettings(SettingsSection):
    """A model that scores acts by a rubric."""

    rubric: str
    """File of the rubric (text), relative to conch.yaml."""
    weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the total, 0..1; 0: recorded, not paid."""
    held_out: bool = False
    """Whether it is never paid and never used for training: watchers compare it with the total."""
    base_url: str | None = None
    """OpenAI-compatible endpoint; none: mind.base_url."""
    model: str | None = None
    """The model's name; none: mind.model."""
    api_key: SecretStr | None = None
    """Key for the endpoint; none: mind.api_key, if the endpoint is the mind's too."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds for one answer, from the request on."""
    deadline: Annotated[float, Field(gt=0)] = 300.0
    """Seconds from the act after which the part is recorded as timeout."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Questions sent at once."""
    tries: Annotated[int, Field(ge=1, le=10)] = 3
    """Most attempts at a question before its score is an error."""
    calls_per_hour: Annotated[int, Field(ge=0)] = 600
    """Requests per hour, counting each attempt; beyond, a score is an error that says so. 0: none."""
    cache_entries: Annotated[int, Field(ge=0)] = 100_000
    """Most answers in the cache; beyond, the least recently used one is dropped."""

    def asks(self, mind: MindSettings) -> tuple[str, str]:
        """(base_url, model) for its questions: settings that it leaves open are the mind's."""
        return self.base_url or mind.base_url, self.model or mind.model


class ConstitutionSettings(SettingsSection):
    """The constitution: seven principles that acts are scored by."""

    gate: bool = True
    """Whether an act with *ethical* below the floor earns at most 0, for any scores of its other parts."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.6
    """The least *ethical* that does not close the gate, 0..1."""


class EffectSettings(SettingsSection):
    """How the agent measures what an act brought about: the block `effect` of action.taken."""

    known_lines: Annotated[int, Field(ge=1_000, le=10_000_000)] = 100_000
    """Lines that an agent knows at most, some 40 bytes each in its home; beyond, the one met first is forgotten."""
    unseen_lines: Annotated[int, Field(ge=1)] = 5
    """Unseen lines from which an act brings information; the last unseen lines of a file do so in any number."""
    program_acts: Annotated[int, Field(ge=0, le=100)] = 3
    """Acts within `program_window` in which the output of programs and listings brings information, at most."""
    program_window: Annotated[int, Field(ge=1)] = 50
    """Cycles in which these acts are counted."""
    noise_letters: Annotated[int, Field(ge=1)] = 40
    """Letters from which a text can be noise."""
    noise_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of a text's letter trigrams that the agent has read, below which the text is noise, 0..1; 0: never."""
    run_length: Annotated[int, Field(ge=1)] = 20
    """Changes and test runs that move no goal which are paid at first; a reached goal gives back at most 3 it took."""
    goal_rise: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Rise of a goal's measure above its best from which it is partial progress, 0..1; a smaller rise is neutral."""


RuleValue = Annotated[float, Field(ge=-100, le=100)]
"""A value of a built-in rule."""


class RuleValues(SettingsSection):
    """The values of a rule, one for each verdict."""

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest of the values."""
        values = [float(getattr(self, name)) for name in type(self).model_fields]
        return min(values), max(values)

    @model_validator(mode="after")
    def _tell_verdicts_apart(self) -> Self:
        low, high = self.range
        if low == high:
            raise ValueError(f"every value is {low:g}: the rule would tell nothing apart")
        return self


class FormatValues(RuleValues):
    """The value of *format*."""

    valid: RuleValue = 0.5
    """A reply that follows the grammar and the tools' signatures, −100..100."""
    invalid: RuleValue = -1.0
    """Any other reply, −100..100."""


class ExecutionValues(RuleValues):
    """The value of *execution*."""

    success: RuleValue = 1.0
    """A tool that succeeded, −100..100."""
    failed: RuleValue = -0.3
    """A tool that failed, or an act that was blocked, −100..100."""
    idle: RuleValue = 0.2
    """Doing nothing or reflecting while no goal is open; of acts without `effect.work`, a tool without effect too."""
    resting: RuleValue = -0.2
    """Doing nothing or reflecting while a goal is open or a message waits, −100..100."""
    fruitless: RuleValue = -0.8
    """A tool that moved no goal: it looked, had no effect, failed, or made a change beyond what is paid, −100..100."""
    invalid: RuleValue = 0.0
    """A reply that is no valid action, −100..100."""


class GoalValues(RuleValues):
    """The value of *goal*, by what a goal's own check says after the act."""

    achieved: RuleValue = 2.0
    """The goal is achieved, −100..100."""
    partial: RuleValue = 1.0
    """Partial progress, −100..100."""
    neutral: RuleValue = 0.0
    """Neither, −100..100."""


class RewardSettings(SettingsSection):
    """How scores become a total."""

    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
    """Weight per component; names all that are paid and sums to 1. None: training.reward_weights, less added shares."""
    parts: dict[RuleName, OutsidePartSettings] = Field(default_factory=dict)
    """Components scored by programs or people of yours, by name: they publish reward.assigned themselves."""
    judges: dict[RuleName, JudgeSettings] = Field(default_factory=dict)
    """Components scored by a model, by name."""
    test_programs: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = TEST_PROGRAMS
    """Commands that run tests, as they begin, without options: running one to its end is a success in any case."""
    deadline: Annotated[float, Field(gt=0)] = 30.0
    """Seconds from the act after which a missing part is recorded as timeout."""
    rule_timeout: Annotated[float, Field(gt=0)] = 2.0
    """Seconds that a plug-in rule may take for one action, unless it declares another limit."""
    rule_memory_mib: Annotated[int, Field(gt=0)] = 1024
    """MiB of memory that a plug-in rule's process may take."""
    format: FormatValues = FormatValues()
    """Of the component *format*."""
    execution: ExecutionValues = ExecutionValues()
    """Of the component *execution*."""
    goal: GoalValues = GoalValues()
    """Of the component *goal*."""
    abstain_when_constrained: bool = True
    """Whether *format* is not applicable to a reply that was held to a constraint (it would be constant)."""
    exploration_cap: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Most that *exploration* adds to the live total, 0..1."""
    diversity: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Normalised entropy of the last actions below which exploration pays double, 0..1; 0: never."""
    diversity_acts: Annotated[int, Field(ge=2, le=500)] = 50
    """Newest acts over which the entropy is computed."""
    diversity_rare: Annotated[int, Field(ge=1)] = 5
    """Uses of a tool × operation among these acts from which on exploration with it pays no double."""
    repetition: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Penalty for each repetition of an action, 0..1."""
    repetition_acts: Annotated[int, Field(ge=2, le=500)] = 20
    """Newest acts within which a repetition counts."""
    repetition_most: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Largest penalty for repetition, 0..1."""

    @property
    def longest_deadline(self) -> float:
        """Seconds from the act after which no part is waited for."""
        outside = (part.deadline or self.deadline for part in self.parts.values())
        return max([self.deadline, *(judge.deadline for judge in self.judges.values()), *outside])

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        if self.weights is not None and abs(sum(self.weights.values()) - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError(f"the weights sum to {sum(self.weights.values()):.9g}, they must sum to 1")
        return self


class WatchSettings(SettingsSection):
    """The watchers of the reward: windows and alarm bounds."""

    recent: Annotated[int, Field(ge=20, le=500)] = 50
    """Newest acts that each figure is computed over."""
    earlier: Annotated[int, Field(ge=20, le=1000)] = 150
    """Most acts before those that they are compared with, once there are as many as `recent`."""
    dominance: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the total's variance beyond which one component dominates it, 0..1."""
    collapse: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of its earlier variance below which the total has collapsed, 0..1."""
    length: Annotated[float, Field(gt=1)] = 3.0
    """Factor by which replies are longer or shorter than earlier when their length has drifted."""
    gap: Annotated[float, Field(gt=0)] = 1.0
    """Standard deviations that the total may rise beyond a held-out score."""

"""The events of scores, and of the weight set that combines them into a total."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from conch_schemas.action import Unit
from conch_schemas.envelope import Event, Value

ScoreStatus = Literal["scored", "not_applicable", "error", "timeout"]

BUILTIN_SCORER = "reward"
"""Scorer name of the built-in rules, all of which the consumer `reward` runs."""
HUMAN_SCORER = "human"
"""Scorer name of a person: `conch reward score`, a rating in a chat."""


LARGEST_SCORE = 1e9
"""Largest absolute score: a total of such values keeps nine decimals, and no sum of them overflows."""
Bound = Annotated[float, Field(ge=-LARGEST_SCORE, le=LARGEST_SCORE)]


class Score(Value):
    """One component's score of one action. A missing score is never 0: it has no value."""

    component: str
    value: Bound | None = None
    """Present exactly when `status` is scored."""
    range: tuple[Bound, Bound]
    """The least and the greatest possible value of the component."""
    status: ScoreStatus
    explanation: str = ""
    scorer: str
    version: str

    @model_validator(mode="after")
    def _value_exactly_when_scored(self) -> Self:
        if (self.value is not None) != (self.status == "scored"):
            raise ValueError(f"score {self.component}: a value exactly when status is scored, got {self.status}")
        if self.value is not None and not self.range[0] <= self.value <= self.range[1]:
            raise ValueError(f"score {self.component}: {self.value} is outside {self.range}")
        return self


class Principle(Value):
    """Score of an act by one principle of the constitution."""

    name: str
    score: Unit
    evidence: str = "none"
    """Basis of the score, in a few words; `none`: there was nothing to judge by, and the score is 1."""


class RewardAssigned(Event):
    """One scorer's scores for one action."""

    TYPE: ClassVar = "reward.assigned"
    type: Literal["conch.v1.reward.assigned"] = "conch.v1.reward.assigned"
    scorer: str
    version: str
    scores: tuple[Score, ...]
    principles: tuple[Principle, ...] = ()
    """Scores by the constitution's principles, if this scorer made any."""


PartRole = Literal["paid", "boost", "factor", "penalty", "gate", "held_out"]


class Part(Value):
    """One component of the total. An experience waits for it where it bears on the total and a program scores it: not
    for what is only recorded (weight 0), nor for a person (scorer `human`)."""

    component: str
    weight: Annotated[float, Field(ge=0.0, le=1.0)]
    """Share of the total; 0: recorded, not paid."""
    task_weight: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Share of the total of an act that belongs to a task: the weights of the others shrink by it. Of other acts the
    component is not applicable, and no experience waits for it. None: tasks do not matter. A part with it has the
    weight 0."""
    range: tuple[Bound, Bound]
    scorer: str
    """The expected scorer: the consumer `reward`, `needs`, `curiosity`, or a plug-in's name."""
    deadline: Annotated[float, Field(gt=0)] = 30.0
    """Seconds from the act after which it is recorded as timeout."""
    cap: float | None = None
    """Upper limit of the value in the live total (exploration: 0.5), or None."""
    role: PartRole = "paid"
    """Effect of its score on the total. `paid`: weight × value is a share of it (weight 0: recorded only). `boost`:
    while the value is below `threshold`, the part `target` pays double. `factor`: a positive total is multiplied by the
    value, 0..1, after the cap of the cycle. `penalty`: the value, at most 0, is added after that. `gate`: with a value
    below `threshold` the total is at most 0. `held_out`: never paid, and never used for training; watchers compare it
    with the total. All but `paid` have the weight 0."""
    threshold: float | None = None
    """Threshold of a boost or a gate."""
    target: str | None = None
    """For a boost: the component that pays double."""


class WeightsSet(Event):
    """A weight set. It applies to the actions that follow it in the stream, until the next one."""

    TYPE: ClassVar = "weights.set"
    type: Literal["conch.v1.weights.set"] = "conch.v1.weights.set"
    version: str
    """Digest of the parts."""
    parts: tuple[Part, ...]
    """Weights sum to 1 within 1e-6."""
    why: str = ""

"""The views of rules tried on recorded acts, for `conch reward new | test | backfill | compare --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas.reward import ScoreStatus


class RuleWritten(View):
    """The package that `conch reward new --json` wrote."""

    schema_: Literal["conch.v1.rule_written"] = Field(default="conch.v1.rule_written", alias="schema")
    name: str
    directory: str


class TestedAct(View):
    """A rule's score of one act."""

    agent: str
    cycle: int | None
    action_id: str | None
    value: float | None
    """None: it could not be made, or does not apply."""
    status: ScoreStatus
    explanation: str
    us: float
    """Microseconds from asking the rule's process to its answer."""


class TestedRule(View):
    """A rule's scores of recorded acts, with a summary."""

    name: str
    version: str
    origin: str
    range: tuple[float, float]
    acts: int
    scored: int
    not_applicable: int
    error: int
    timeout: int
    coverage: float
    """Scored among those that it applies to, 0..1; 1 where it applied to none."""
    mean: float | None
    """Mean of the values, like least and greatest; None without any."""
    least: float | None
    greatest: float | None
    us: float
    """Median of the acts' microseconds, without the first."""
    scores: tuple[TestedAct, ...]


class RuleTested(View):
    """The result of `conch reward test --json`."""

    schema_: Literal["conch.v1.rule_tested"] = Field(default="conch.v1.rule_tested", alias="schema")
    rules: tuple[TestedRule, ...]


class Backfill(View):
    """The result of `conch reward backfill --json`. Counts are of acts."""

    schema_: Literal["conch.v1.backfill"] = Field(default="conch.v1.backfill", alias="schema")
    scorer: str
    version: str
    acts: int
    before: int
    """Acts that had a score of this version before."""
    published: int
    left: int
    """Acts without a score yet."""
    removed: int
    """Acts that store.keep removed: they are not scored."""
    statuses: dict[str, int]
    """Status -> number of published scores with it."""
    seconds: float
    per_second: float
    joined: bool
    """Whether the store has the scores."""


class ComparedSide(View):
    """One of the two rules or versions that are compared."""

    component: str
    scorer: str
    version: str | None
    """None: of each act the version that counts."""
    range: tuple[float, float]
    said: int
    """Acts that it scored or should have scored."""
    coverage: float | None
    """Scored among those that it applies to, 0..1; None where it applied to none."""


class ComparedScore(View):
    """The score that one side gave an act."""

    value: float
    version: str
    explanation: str


class ComparedAct(View):
    """An act that the two sides score differently."""

    agent: str
    cycle: int
    a: ComparedScore
    b: ComparedScore


class Comparison(View):
    """The result of `conch reward compare --json`, over the acts that both sides scored."""

    schema_: Literal["conch.v1.comparison"] = Field(default="conch.v1.comparison", alias="schema")
    a: ComparedSide
    b: ComparedSide
    count: int
    """Acts that both scored."""
    equal: float | None
    """Share of scores that differ by at most a twentieth of the wider range, 0..1; None without any."""
    same_sign: float | None
    """Share of scores of the same sign, 0..1; None without any."""
    mean_difference: float | None
    """Mean of b less a, in the scores' own unit; None without any, and where it is infinite."""
    rank_correlation: float | None
    """Spearman's, -1..1; None where there is none."""
    why_none: str
    """Why there is no rank correlation; empty where there is one."""
    apart: tuple[ComparedAct, ...]
    """Those that differ most, the furthest apart first."""

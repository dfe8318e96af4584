"""The views of forks, for `conch fork --json` and the page of a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import Action, ForkScored, GoalCheck, Score
from conch_schemas.action import OutcomeStatus


class ForkRow(View):
    """A candidate for the decision of a cycle, tried in a copy of the workspace."""

    id: str
    fork: str
    """Digest of what the candidates of one fork share."""
    seed: int
    mind: str
    model: str
    raw: str
    """The mind's reply."""
    action: Action
    executed: bool
    """Whether a tool was run in the copy."""
    why_not: str
    """Why a valid call was not run; else empty."""
    outcome: OutcomeStatus
    output: str
    """The tool's output, at most 64 KiB of it."""
    error: str | None
    goals: tuple[GoalCheck, ...]
    paths: tuple[str, ...]
    """What it changed in the copy, where that is known."""
    scores: tuple[Score, ...]
    total: float
    """Σ weight × value of these scores."""
    coverage: float
    ms: dict[str, float]


class Forks(View):
    """The candidates of a fork, as `conch fork --json` prints them."""

    schema_: Literal["conch.v1.forks"] = Field(default="conch.v1.forks", alias="schema")
    agent: str
    cycle: int
    made: int
    """Candidates that were made now; the others were recorded before."""
    forks: tuple[ForkRow, ...]


def fork_row(fork: ForkScored) -> ForkRow:
    """The row of a candidate."""
    return ForkRow(
        id=fork.id,
        fork=fork.fork,
        seed=fork.seed,
        mind=fork.mind,
        model=fork.model,
        raw=fork.raw,
        action=fork.action,
        executed=fork.executed,
        why_not=fork.why_not,
        outcome=fork.outcome.status,
        output=fork.outcome.output.text,
        error=fork.outcome.error,
        goals=fork.goals,
        paths=fork.effect.paths if fork.effect is not None else (),
        scores=fork.scores,
        total=fork.total,
        coverage=fork.coverage,
        ms=fork.ms,
    )


def forks_shown(agent: str, cycle: int, forks: Iterable[ForkScored], made: int) -> Forks:
    """`conch.v1.forks`: a row each."""
    return Forks(agent=agent, cycle=cycle, made=made, forks=tuple(map(fork_row, forks)))

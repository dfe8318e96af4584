"""The views of cycles, for `conch cycle list | show --json`, the lines of `conch run --json` and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, field_serializer

from conch.experience.queries import BUILTIN_SCORERS, PHASES
from conch.views.base import View
from conch.views.witness.marks import Compliance
from conch_schemas import (
    Action,
    Claim,
    Cost,
    Decoding,
    ExperienceRecorded,
    GoalCheck,
    Line,
    Mark,
    Outcome,
    PromptMessage,
    ScoredPart,
    Usage,
    trace_id,
)
from conch_schemas.action import OutcomeStatus


class CycleRow(View):
    """A cycle as of its latest revision."""

    agent: str
    cycle: int
    """The cycle's number, from 0."""
    action_id: str
    time: str
    """When the act was done, UTC."""
    thought: str
    raw: str
    """The mind's reply, from which the action was parsed."""
    action: Action
    output: str
    """The tool's output, at most 64 KiB of it."""
    outcome: OutcomeStatus
    scores: tuple[ScoredPart, ...]
    """Every component with its status; each of the five built-in ones, also without a score."""
    total: float
    coverage: float
    """Scored parts among those that apply, 0..1."""
    complete: bool
    """Whether every part that the weight set expects has come."""
    revision: int
    """From 1; a later revision replaces an earlier one."""
    needs_before: dict[str, float] | None
    """Satisfaction of each need before the act, 0..1; None where it is not known."""
    needs_after: dict[str, float] | None
    policy: str | None
    """Digest of the acting policy."""
    ms: dict[str, float]
    """Milliseconds of each phase; `reflect` is 0 until the reflection is known."""

    @field_serializer("action", mode="wrap")
    def _as_said(self, action: Action, serialize):  # type: ignore[no-untyped-def]  # an annotation would be its schema
        """The action as the mind said it; what its tool declares of it stays in the event."""
        shown = serialize(action)
        shown.pop("declared_effect", None)
        return shown


class WholeCycle(CycleRow):
    """A cycle with everything that is known of it: thought, reply, outcome, scores, marks."""

    claims: tuple[Claim, ...]
    memory: tuple[str, ...]
    """Notes that the mind was reminded of."""
    messages: tuple[PromptMessage, ...]
    goals: tuple[GoalCheck, ...]
    breakdown: tuple[Line, ...]
    """Amounts that add up to the total."""
    weights: str
    """Version of the weight set."""
    reflection: str
    model: str
    usage: Usage
    cost: Cost | None
    """Price of the thought and the decision; None where it is not known."""
    decoding: Decoding | None
    """How the reply was decoded; None where it is not known."""
    trace_id: str | None
    outcome_detail: Outcome
    marks: tuple[Mark, ...]
    constitution: Compliance | None
    """What the scores by principle come to; None while no mark has any."""


class Cycles(View):
    """Some cycles, as `conch cycle list --json` prints them."""

    schema_: Literal["conch.v1.cycles"] = Field(default="conch.v1.cycles", alias="schema")
    cycles: tuple[CycleRow, ...]
    """Oldest first."""


class Cycle(View):
    """One cycle in full, as `conch cycle show --json` prints it."""

    schema_: Literal["conch.v1.cycle"] = Field(default="conch.v1.cycle", alias="schema")
    cycle: WholeCycle


def cycle_row(experience: ExperienceRecorded) -> CycleRow:
    """The row of an experience. A built-in component that is neither in the weight set nor scored is `not_applicable`
    with weight 0."""
    return CycleRow(**_fields(experience))


def whole_row(experience: ExperienceRecorded, marks: Sequence[Mark]) -> WholeCycle:
    """The row of `cycle list` and everything else that is known of the cycle."""
    from conch.views.witness.principles import compliance, sealed_principles  # only here: lists do without the rules

    return WholeCycle(
        **_fields(experience),
        claims=experience.claims,
        memory=experience.memory,
        messages=experience.messages,
        goals=experience.goals,
        breakdown=experience.breakdown,
        weights=experience.weights,
        reflection=experience.reflection,
        model=experience.model,
        usage=experience.usage,
        cost=experience.cost,
        decoding=experience.decoding,
        trace_id=trace_id(experience.traceparent),
        outcome_detail=experience.outcome,
        marks=tuple(marks),
        constitution=compliance(sealed_principles(marks), experience),
    )


def cycles_shown(found: Sequence[ExperienceRecorded]) -> Cycles:
    """`conch.v1.cycles`: a row each."""
    return Cycles(cycles=tuple(map(cycle_row, found)))


def _fields(experience: ExperienceRecorded) -> dict[str, object]:
    outcome = experience.outcome
    return {
        "agent": experience.agent,
        "cycle": experience.cycle,
        "action_id": experience.action_id,
        "time": _utc(experience.acted_at),
        "thought": experience.thought,
        "raw": experience.raw,
        "action": experience.action,
        "output": outcome.output.text,
        "outcome": outcome.status,
        "scores": (*experience.scores, *_unasked(experience)),
        "total": experience.total,
        "coverage": experience.coverage,
        "complete": experience.complete,
        "revision": experience.revision,
        "needs_before": experience.needs_before,
        "needs_after": experience.needs_after,
        "policy": experience.policy,
        "ms": {phase: experience.ms.get(phase, 0.0) for phase in PHASES},
    }


def _utc(time: datetime) -> str:
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return aware.isoformat().replace("+00:00", "Z")


def _unasked(experience: ExperienceRecorded) -> list[ScoredPart]:
    there = {score.component for score in experience.scores}
    return [
        ScoredPart(
            component=component,
            value=None,
            weight=0.0,
            status="not_applicable",
            explanation="not in the weight set",
            scorer=scorer,
            version="",
        )
        for component, scorer in BUILTIN_SCORERS.items()
        if component not in there
    ]

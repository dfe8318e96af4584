"""An experience as a row of `conch cycle list --json`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from conch_schemas import BUILTIN_SCORER, ExperienceRecorded, ScoredPart

PHASES = ("think", "ground", "decide", "act", "reflect")

BUILTIN_SCORERS = {
    "format": BUILTIN_SCORER,
    "execution": BUILTIN_SCORER,
    "needs": "needs",
    "goal": BUILTIN_SCORER,
    "exploration": "curiosity",
}
"""The five components that every row has, in their order, with who scores them."""


def cycle_row(experience: ExperienceRecorded) -> dict[str, Any]:
    """The public row: plain JSON values. All of `format, execution, needs, goal, exploration` appear with a status.

    `ms` has every phase; `reflect` is 0 until the reflection is known. A built-in component that the weight set leaves
    out and nobody scored is `not_applicable` with weight 0.
    """
    outcome = experience.outcome
    return {
        "agent": experience.agent,
        "cycle": experience.cycle,
        "action_id": experience.action_id,
        "time": _utc(experience.acted_at),
        "thought": experience.thought,
        "raw": experience.raw,
        "action": experience.action.model_dump(mode="json"),
        "output": outcome.output.text,
        "outcome": outcome.status,
        "scores": [score.model_dump(mode="json") for score in (*experience.scores, *_unasked(experience))],
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

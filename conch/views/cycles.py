"""Cycles, as `conch cycle list | show --json` and the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conch.experience import cycle_row
from conch_schemas import ExperienceRecorded, Mark, trace_id


def cycles_shown(found: Sequence[ExperienceRecorded]) -> dict[str, Any]:
    """`conch.v1.cycles`: a row each."""
    return {"schema": "conch.v1.cycles", "cycles": [cycle_row(experience) for experience in found]}


def whole_row(experience: ExperienceRecorded, marks: Sequence[Mark]) -> dict[str, Any]:
    """The row of `cycle list` and everything else that is known of the cycle."""
    rest = experience.model_dump(mode="json")["data"]
    more = ("claims", "memory", "messages", "goals", "breakdown", "weights", "reflection", "model", "usage")
    return (
        cycle_row(experience)
        | {name: rest[name] for name in more}
        | {
            "trace_id": trace_id(experience.traceparent),
            "outcome_detail": rest["outcome"],
            "marks": [mark.model_dump(mode="json") for mark in marks],
        }
    )

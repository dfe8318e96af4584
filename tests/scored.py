"""A recorded act by the values of its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from conch.experience import ExperiencePoint
from conch.experience.queries.bodies import ShownLine, ShownScore
from conch.rewards import total
from conch_schemas import Part


class _Scored(NamedTuple):
    value: float | None
    status: str
    explanation: str = ""


def point(parts: tuple[Part, ...], values: Mapping[str, float | None], cycle: int = 1) -> ExperiencePoint:
    """A recorded act with these scores, under the weights of these parts."""
    scores = {name: _Scored(value, "scored" if value is not None else "error") for name, value in values.items()}
    found = total(parts, scores)
    weights = {one.component: one.weight for one in parts}
    shown = tuple(ShownScore(name, one.value, weights[name], one.status, "tests", "1") for name, one in scores.items())
    lines = tuple(ShownLine(one.step, one.amount) for one in found.breakdown)
    blank = ExperiencePoint(**dict.fromkeys(ExperiencePoint._fields))
    return blank._replace(
        cycle=cycle, skill="filesystem.read", total=found.total, complete=found.complete, scores=shown, breakdown=lines
    )

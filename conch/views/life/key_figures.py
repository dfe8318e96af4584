"""The key figures of an agent's cycles, each with the cohort that it is taken over. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal, NamedTuple

from conch.curiosity import entropy
from conch.experience import ExperiencePoint
from conch.views.life.reweighed import one_weighing
from conch.views.life.trend import slope_interval
from conch_schemas import WeightsSet

EXECUTED: Final = ("success", "error", "timeout", "blocked")
"""Outcomes of acts that a tool was asked for."""
SLOPE_OVER: Final = 200
"""Cycles that the learning progress is taken over."""
FEWEST: Final = 20
"""Cycles that a slope needs."""

Acted = tuple[int, str | None, float]
"""(cycle, digest of the policy, total)."""


@dataclass(frozen=True)
class RewardSlope:
    """The learning progress: by how much the total rises in 100 cycles, with its 95 % interval."""

    value: float
    low: float
    high: float
    """The ends of its 95 % interval."""
    cycles: int
    first: int
    """The first of these cycles, like `last`."""
    last: int


def learning_progress(points: Sequence[ExperiencePoint], sets: Sequence[WeightsSet]) -> RewardSlope | None:
    """The slope over the last 200 of these cycles, all of them under the weights in force, the last of these sets; None
    for fewer than 20. Its interval holds for totals that resemble their neighbours."""
    rows = points[-SLOPE_OVER:]
    if len(rows) < FEWEST:
        return None
    weighing = one_weighing(sets, rows)
    found = slope_interval([one.cycle / 100.0 for one in rows], [weighing.total(one) for one in rows])
    if found is None:
        return None
    return RewardSlope(found.value, found.low, found.high, len(rows), rows[0].cycle, rows[-1].cycle)


class CohortFigure(NamedTuple):
    """A key figure, and what it was taken over."""

    name: str
    value: float | None
    """None where the cohort is too small."""
    low: float | None
    """The ends of its 95 % interval; None: it has none."""
    high: float | None
    unit: str
    cohort: Literal["seen", "scored"]
    """seen: all cycles that were recorded. scored: those with a total, or with needs measured after them."""
    cycles: int
    """Cycles of the cohort that it was taken over."""


def cohort_figures(points: Sequence[ExperiencePoint], sets: Sequence[WeightsSet]) -> Iterator[CohortFigure]:
    """The figures of these cycles, oldest first; `sets`: the agent's weight sets, the last one in force."""
    called = [point for point in points if point.outcome in EXECUTED]
    skills = [point.skill for point in called]
    levels = [fmean(point.needs_after.values()) for point in points if point.needs_after]
    change = (levels[-1] - levels[0]) / (len(levels) - 1) if len(levels) > 1 else None
    seen, tools, n = len(points), len(called), None
    yield CohortFigure("format_compliance", _share([p.valid for p in points]), n, n, "share of replies", "seen", seen)
    succeeded = _share([point.outcome == "success" for point in called])
    yield CohortFigure("tool_success", succeeded, n, n, "share of tool calls", "seen", tools)
    yield CohortFigure("needs_improvement", change, n, n, "satisfaction a cycle", "scored", len(levels))
    yield CohortFigure("unique_skills", float(len(set(skills))), n, n, "tool × operation", "seen", tools)
    yield CohortFigure("skill_entropy", entropy(skills) if tools > 1 else n, n, n, "0..1", "seen", tools)
    rise = learning_progress(points, sets)
    value, low, high = (rise.value, rise.low, rise.high) if rise else (n, n, n)
    over = min(seen, SLOPE_OVER)
    yield CohortFigure("learning_progress", value, low, high, "total in 100 cycles", "scored", over)
    coverage = fmean(point.coverage for point in points) if points else n
    yield CohortFigure("reward_coverage", coverage, n, n, "share of the weight", "scored", seen)


def _share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None

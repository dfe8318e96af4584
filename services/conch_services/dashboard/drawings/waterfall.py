"""The waterfall chart of a total: bars, each beginning where the one before ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from conch.views import step_words
from conch_schemas import ExperienceRecorded, ScoredPart
from conch_services.dashboard.drawings.numerals import signed

WIDTH = 200.0
"""Width of the drawing: of LOW to HIGH, or as far as the sums go beyond."""
BEARING = ("boost", "factor", "penalty", "gate")
"""Roles of what has no weight and bears on the whole total; all else without a weight is watched."""
LOW, HIGH = -0.25, 1.0
"""What the axis holds at least: so that one length is one amount, from cycle to cycle."""
LEAST_WIDTH = 1.5
"""Least width of a bar, so that a tiny amount is visible."""


@dataclass(frozen=True)
class WaterfallBar:
    """One line of the breakdown, or the total."""

    name: str
    formula: str
    """`raw × weight` of a part; else empty."""
    said: str
    """The amount; of a part that was not scored its status."""
    why: str
    kind: str
    """good, bad, total, or none: nothing is drawn."""
    x: float = 0.0
    width: float = 0.0
    end: float = 0.0
    """Position of the sum after this line, 0 to WIDTH."""
    component: str = ""
    """The component that the line comes from; empty: of none alone."""


@dataclass(frozen=True)
class Waterfall:
    """The bars of a total, and where 0 is on their axis."""

    zero: float
    """Position of 0, 0 to WIDTH."""
    bars: tuple[WaterfallBar, ...]


def waterfall(experience: ExperienceRecorded) -> Waterfall:
    """The parts in the order of the weight set, scored or not, each with its cap; what bears on the whole; the sum."""
    steps = list(_steps(experience))
    sums, reached = [0.0], 0.0
    for _, amount in steps:
        reached += amount or 0.0
        sums.append(reached)
    low, high = min(LOW, *sums), max(HIGH, *sums)
    scale = WIDTH / (high - low)
    place = [(value - low) * scale for value in sums]
    bars = [_drawn(bar, amount, place[at], place[at + 1]) for at, (bar, amount) in enumerate(steps)]
    zero = -low * scale
    end = (experience.total - low) * scale
    said = signed(experience.total)
    bars.append(WaterfallBar("total", "", said, "", "total", min(zero, end), max(abs(end - zero), LEAST_WIDTH), end))
    return Waterfall(zero, tuple(bars))


def _steps(experience: ExperienceRecorded) -> Iterator[tuple[WaterfallBar, float | None]]:
    """(the line's bar, its amount; None where a part was not scored)."""
    lines = {line.step: line for line in experience.breakdown}
    for score in experience.scores:
        if score.weight <= 0:
            continue
        paid = lines.pop(f"part:{score.component}", None)
        yield _part(score, None if paid is None else paid.amount)
        if (cap := lines.pop(f"cap:{score.component}", None)) is not None:
            yield WaterfallBar("cap", "", signed(cap.amount), cap.why, ""), cap.amount
    for step, line in lines.items():
        kind, _, of = step.partition(":")
        component = of if kind == "gate" else "" if of else step
        yield WaterfallBar(step_words(step), "", signed(line.amount), line.why, "", component=component), line.amount


def _part(score: ScoredPart, amount: float | None) -> tuple[WaterfallBar, float | None]:
    name = score.component
    if amount is None or score.value is None:
        said = score.status.replace("_", " ")
        return WaterfallBar(name, "", said, score.explanation, "none", component=name), None
    formula = f"{signed(score.value, 2)} × {score.weight:.3g}"
    return WaterfallBar(name, formula, signed(amount), score.explanation, "", component=name), amount


def _drawn(bar: WaterfallBar, amount: float | None, begin: float, end: float) -> WaterfallBar:
    if amount is None:
        return replace(bar, kind="none", end=end)
    kind = "bad" if amount < 0 else "good"
    return replace(bar, kind=kind, x=min(begin, end), width=max(abs(end - begin), LEAST_WIDTH), end=end)


@dataclass(frozen=True)
class UnweightedScore:
    """A score that has no weight in the total."""

    score: ScoredPart
    does: str
    """The score's effect on the total."""


_DOES = {"boost": "boost", "factor": "factor", "penalty": "penalty", "gate": "gate", "held_out": "watched, held out"}


def unweighted(experience: ExperienceRecorded) -> Sequence[UnweightedScore]:
    """The scores without a weight: what bears on the whole total before what is only watched."""
    found = [UnweightedScore(one, _DOES.get(one.role, "watched")) for one in experience.scores if one.weight <= 0]
    return sorted(found, key=lambda one: one.score.role not in BEARING)

"""Chooses the cycles that a person should review, and says why. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Final

from conch.experience import ExperiencePoint
from conch.requests import APPROVAL
from conch.rewards.watch import ActiveAlarm, alarm_name
from conch_schemas import HUMAN_SCORER
from conch_services.dashboard.drawings.numerals import signed

EXTREME: Final = 2.0
"""Standard deviations from the mean beyond which a total is extreme."""
APART: Final = 0.25
"""Share of the wider range beyond which two scorers of one component disagree."""
MOST_OF_ONE: Final = 20
"""Cycles with one kind of reason, at most, by weight."""


@dataclass(frozen=True)
class ReviewCandidate:
    """A cycle to review, and the reason."""

    cycle: int
    reasons: tuple[str, ...]
    """Each a few words, the weightiest first."""
    weight: float
    """The more, the sooner it is shown."""


def candidates(
    points: Sequence[ExperiencePoint], alarms: Iterable[ActiveAlarm], limits: Mapping[str, Sequence[float]]
) -> list[ReviewCandidate]:
    """The cycles to review, the weightiest first, of equals the newest; none that a person has judged.

    An alarm that began at it weighs 4; a disagreement 2 and its share of the component's range (`limits`: by
    component, else that of the values); an extreme total a half for each standard deviation from the mean; a score that
    is missing 0.5 and its weight's share.
    """
    open_ = {point.cycle: point for point in points if not _judged(point)}
    found: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for cycle, weight, words in (
        *_alarmed(alarms),
        *_most(_apart(points, limits)),
        *_most(_extreme(points)),
        *_most(_incomplete(points)),
    ):
        if cycle in open_:
            found[cycle].append((weight, words))
    made = []
    for cycle, reasons in found.items():
        reasons.sort(key=lambda one: -one[0])
        made.append(ReviewCandidate(cycle, tuple(words for _, words in reasons), sum(weight for weight, _ in reasons)))
    return sorted(made, key=lambda one: (-one.weight, -one.cycle))


Found = tuple[int, float, str]
"""(cycle, weight, words)."""


def _judged(point: ExperiencePoint) -> bool:
    """Whether a person scored it. Where a part of the weight set waits for a person, an act has a human score without a
    value."""
    mine = [score for score in point.scores if (score.component, score.scorer) == (APPROVAL, HUMAN_SCORER)]
    return any(score.value is not None for score in mine)


def _most(found: Iterable[Found]) -> list[Found]:
    return sorted(found, key=lambda one: (-one[1], -one[0]))[:MOST_OF_ONE]


def _alarmed(alarms: Iterable[ActiveAlarm]) -> list[Found]:
    return [(one.cycle, 4.0, f"alarm: {alarm_name(one.alarm)}") for one in alarms if one.cycle is not None]


def _apart(points: Sequence[ExperiencePoint], limits: Mapping[str, Sequence[float]]) -> Iterable[Found]:
    for point in points:
        said: dict[str, list[float]] = defaultdict(list)
        for score in point.scores:
            if score.value is not None:
                said[score.component].append(score.value)
        for component, values in said.items():
            low, high = limits.get(component, (min(values), max(values)))
            share = (max(values) - min(values)) / ((high - low) or 1.0)
            if len(values) > 1 and share > APART:
                yield point.cycle, 2.0 + share, f"scorers disagree on {component} by {max(values) - min(values):.2f}"


def _extreme(points: Sequence[ExperiencePoint]) -> Iterable[Found]:
    totals = [point.total for point in points]
    spread = pstdev(totals) if len(totals) > 1 else 0.0
    if spread <= 1e-9:
        return
    middle = fmean(totals)
    for point in points:
        away = (point.total - middle) / spread
        if abs(away) >= EXTREME:
            kind = "high" if away > 0 else "low"
            yield (
                point.cycle,
                abs(away) / 2,
                f"{kind} total {signed(point.total)}, {abs(away):.1f} deviations from the mean",
            )


def _incomplete(points: Sequence[ExperiencePoint]) -> Iterable[Found]:
    for point in points:
        if point.complete:
            continue
        missing = [score for score in point.scores if score.status == "timeout"]
        names = ", ".join(score.component for score in missing) or "a part"
        yield point.cycle, 0.5 + sum(score.weight for score in missing), f"incomplete: no score of {names}"

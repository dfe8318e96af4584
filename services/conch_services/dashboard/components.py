"""Figures of the reward's components over many cycles. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from conch.experience import ExperiencePoint
from conch.rewards import agreement
from conch.rewards.watch import amounts, variance_shares
from conch_services.dashboard.drawings.numerals import MINUS

BINS = 24
"""Number of bins of a strip."""
WIDEST = 1000.0
"""A range as wide as this says nothing of the values: it is only that of what a number may be (ours)."""
WIDTH, HEIGHT = 120.0, 24.0
"""Size of a strip, in the units of its drawing."""


@dataclass(frozen=True)
class ValueStrip:
    """The distribution of a component's values over its range, to be drawn."""

    bars: tuple[tuple[float, float, float, float], ...]
    """(x, y, width, height) of each bin that is not empty."""
    zero: float | None
    """x of the value 0; None: it lies outside, or at an end."""
    words: str
    """The same in words."""
    low: float = 0.0
    high: float = 0.0
    """The ends that it is drawn between."""


def strip(values: Sequence[float], limits: Sequence[float] | None) -> ValueStrip:
    """The values over their range, else from the least to the greatest, as where the range is so wide that all values
    would fall into one bin; the fullest bin is as high as the strip."""
    if not values:
        return ValueStrip((), None, "no values")
    own = (min(values), max(values))
    known = limits is not None and own[1] - own[0] < limits[1] - limits[0] < WIDEST
    low, high = limits if limits is not None and known else own
    wide = (high - low) or 1.0
    counts = Counter(min(BINS - 1, max(0, int((value - low) / wide * BINS))) for value in values)
    most, step = max(counts.values()), WIDTH / BINS
    bars = []
    for place, count in sorted(counts.items()):
        tall = max(1.5, HEIGHT * count / most)
        bars.append((round(place * step, 2), round(HEIGHT - tall, 2), round(step - 0.8, 2), round(tall, 2)))
    zero = round((0.0 - low) / wide * WIDTH, 2) if low < 0.0 < high else None
    fullest = max(counts, key=lambda place: (counts[place], -place))
    at = [low + wide * (fullest + end) / BINS for end in (0, 1)]
    words = f"{len(values)} values from {own[0]:g} to {own[1]:g}, most between {at[0]:g} and {at[1]:g}"
    words = words.replace("-", MINUS)
    return ValueStrip(tuple(bars), zero, words, low, high)


def shares(points: Sequence[ExperiencePoint]) -> dict[str, float]:
    """Cov(part, total) ÷ Var(total) of each part and each further step of the total; they add up to 1.

    Empty for fewer than two cycles, and for a total that never changes.
    """
    if len(points) < 2:
        return {}
    rows = [amounts(point) for point in points]
    names = dict.fromkeys(name for row in rows for name in row)
    series = {name: [row.get(name, 0.0) for row in rows] for name in names}
    # The amounts have six decimals; a finer difference would leave nothing to divide by.
    return variance_shares(series, [round(point.total, 6) for point in points])


def share_of(component: str, role: str, found: Mapping[str, float]) -> float | None:
    """The share of a component of that role: a gate's line has another name than its component."""
    return found.get(f"gate:{component}" if role == "gate" else component)


def bites(points: Iterable[ExperiencePoint]) -> Counter[str]:
    """Component -> in how many cycles it was capped, doubled what it boosts, took a share or an amount off, or closed
    as a gate.

    What held the whole cycle to −1..1 is called `cycle`.
    """
    found: Counter[str] = Counter()
    for point in points:
        steps = {line.step for line in point.breakdown if not line.step.startswith("part:")}
        found.update({step.partition(":")[2] or step for step in steps})
    return found


@dataclass(frozen=True)
class ScorerValues:
    """The values that one scorer gave a component in one version, by act."""

    scorer: str
    version: str
    values: Mapping[int, float]
    range: tuple[float, float]


@dataclass(frozen=True)
class Disagreement:
    """Two scorers of one component, compared over the acts that both have scored."""

    component: str
    first: ScorerValues
    second: ScorerValues
    count: int
    apart: float | None
    """Mean absolute difference; None without any."""
    correlation: float | None
    """Spearman's rank correlation, −1..1."""
    why: str
    """Why there is none; empty where there is one."""


def disagreement(component: str, first: ScorerValues, second: ScorerValues) -> Disagreement:
    """How far the two are apart."""
    both = sorted(first.values.keys() & second.values.keys())
    one, other = ([voice.values[act] for act in both] for voice in (first, second))
    widest = max(high - low for low, high in (first.range, second.range)) or 1.0
    found = agreement(one, other, widest)
    apart = fmean(abs(a - b) for a, b in zip(one, other, strict=True)) if both else None
    return Disagreement(component, first, second, len(both), apart, found.rank_correlation, found.why_none)


def figures_of(points: Sequence[ExperiencePoint], component: str, scorer: str) -> dict[str, object]:
    """What these cycles say of a component by one scorer, as a row of rewards has it; of quantiles the nearest rank."""
    said = [
        score for point in points for score in point.scores if (score.component, score.scorer) == (component, scorer)
    ]
    values = sorted(score.value for score in said if score.value is not None)
    counts = Counter(score.status for score in said)
    applied = len(said) - counts["not_applicable"]
    ranks = {"p50": 50, "p95": 95}
    return {
        "count": len(said),
        "scored": len(values),
        "coverage": len(values) / applied if applied else None,
        "mean": fmean(values) if values else None,
        **{name: values[-(-rank * len(values) // 100) - 1] if values else None for name, rank in ranks.items()},
        "errors": counts["error"],
        "timeouts": counts["timeout"],
    }

"""The key figures of some cycles in words, as the overview shows them. Pure; figures.js makes the same ones live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, TypedDict

from conch.experience import CostSummary, ExperiencePoint
from conch.views import EXECUTED, amount_words, fixed, signed
from conch_services.dashboard.story.strip import adds

MOST_ACTIONS = 8
"""Bars of the action distribution; what is rarer is counted together."""
OTHERS = "others"
TREND = 25
"""Cycles that the trend of the needs is taken over."""


class KeyFigure(NamedTuple):
    """One key figure of the overview."""

    name: str
    title: str
    value: str
    note: str


class CycleFigures(TypedDict):
    """A cycle for the page's scripts, as JSON."""

    cycle: int
    outcome: str
    skill: str
    valid: bool
    total: float
    coverage: float
    complete: bool
    parts: dict[str, float]
    """What each part and each step adds to the total, by what it does: they sum to it."""
    needs: Mapping[str, float] | None
    """Satisfaction by need, 0..1, after the act."""


def row(point: ExperiencePoint) -> CycleFigures:
    """The figures of a cycle; `figures.js` makes the same of a live event."""
    return {
        "cycle": point.cycle,
        "outcome": point.outcome,
        "skill": point.skill,
        "valid": point.valid,
        "total": round(point.total, 6),
        "coverage": round(point.coverage, 4),
        "complete": not lacks_score(point),
        "parts": adds(point),
        "needs": point.needs_after and {need: round(level, 4) for need, level in point.needs_after.items()},
    }


def key_figures(points: Sequence[ExperiencePoint]) -> list[KeyFigure]:
    """The figures of these cycles, the oldest first: reward, format, tools, needs, exploration, coverage; a dash
    without values. Each note says its cohort: cycles seen (all that were recorded) or scored (with a total)."""
    executed = [point for point in points if point.outcome in EXECUTED]
    trend = needs_trend([point.needs_after for point in points[-TREND:] if point.needs_after])
    return [
        KeyFigure(
            "reward",
            "Mean reward",
            signed(fmean(p.total for p in points)) if points else "–",
            f"a cycle, of {len(points)} scored",
        ),
        KeyFigure("format", "Format compliance", _share([p.valid for p in points]), f"of {len(points)} replies seen"),
        KeyFigure(
            "tools",
            "Tool success",
            _share([p.outcome == "success" for p in executed]),
            f"of {len(executed)} tool calls seen",
        ),
        KeyFigure(
            "needs", "Needs trend", "–" if trend is None else signed(trend, 4), f"a cycle, the last {TREND} scored"
        ),
        KeyFigure(
            "exploration",
            "Exploration",
            str(len({point.skill for point in executed})),
            f"tool × operation, of {len(executed)} tool calls seen",
        ),
        KeyFigure(
            "coverage",
            "Coverage",
            _percent(fmean(p.coverage for p in points)) if points else "–",
            _lacking(points),
        ),
    ]


def costs_chip(costs: CostSummary) -> str:
    """What the cycles cost, in a few words: the sums, and of how many cycles that is unknown."""
    known = " + ".join(amount_words(amount, currency) for currency, amount in costs.amounts.items())
    if not known:
        return "unknown"
    return f"{known}, {costs.unknown} unknown" if costs.unknown else known


def needs_trend(levels: Sequence[Mapping[str, float]]) -> float | None:
    """How much the mean satisfaction changes per cycle over these cycles, [-1, 1]; None of fewer than two."""
    if len(levels) < 2:
        return None
    return (fmean(levels[-1].values()) - fmean(levels[0].values())) / (len(levels) - 1)


def actions(points: Sequence[ExperiencePoint]) -> list[tuple[str, float]]:
    """(tool or kind, its share), the most frequent first, of equals by name; at most MOST_ACTIONS and the rest."""
    counts = Counter(tool_of(point.skill) for point in points)
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown, rest = ranked[:MOST_ACTIONS], sum(count for _, count in ranked[MOST_ACTIONS:])
    return [(name, count / len(points)) for name, count in (*shown, *([(OTHERS, rest)] if rest else []))]


def tool_of(skill: str) -> str:
    """The tool of a skill `tool.operation`; of an act without one, its kind."""
    return skill.split(".", 1)[0]


def _lacking(points: Sequence[ExperiencePoint]) -> str:
    """How many cycles lack a score, as a row says it: it has not come, or could not be made."""
    late = sum(lacks_score(point) for point in points)
    return f"{late} of {len(points)} lack a score" if late else "every score came"


def lacks_score(point: ExperiencePoint) -> bool:
    """Whether a row of this cycle says that fewer parts are scored than there are."""
    return not point.complete or any(one.weight > 0 and one.status in ("error", "timeout") for one in point.scores)


def _share(held: Sequence[bool]) -> str:
    return _percent(sum(held) / len(held)) if held else "–"


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 1)}%"

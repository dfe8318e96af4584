"""The key figures of some cycles in words, as the overview shows them, and the lines of its charts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple, TypedDict

from conch.experience import CostSummary, ExperiencePoint
from conch.views import EXECUTED, FEWEST_SMOOTHED, amount_words
from conch_services.dashboard.drawings.numerals import fixed, signed
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


class Columns(TypedDict):
    """Lines over one axis, as the scripts take them: `series.js` joins what comes later to what is there."""

    x: list[int]
    lines: dict[str, dict[str, list[float | None]]]
    """Chart -> line -> a value for each x."""


MEAN = 25
"""Cycles of a moving mean."""
AGAIN = 20
"""Cycles before the newest of a page that it is told again: a late score has changed them."""


def columns(points: Sequence[ExperiencePoint], shown: int, since: int = 0) -> Columns:
    """The lines of the last `shown` of these points, from cycle `since` on: the total and its moving mean, that of each
    part, the needs.

    A mean is over MEAN cycles; at the beginning of a life over those that there are, FEWEST_SMOOTHED at least.
    """
    added = [adds(point) for point in points]
    parts = dict.fromkeys(name for one in added for name in one)
    needs = dict.fromkeys(name for point in points for name in point.needs_after or ())
    begin = max(0, len(points) - shown)
    begin += next((at for at, point in enumerate(points[begin:]) if point.cycle >= since), len(points) - begin)
    means = moving_mean([point.total for point in points])
    by_part = {name: moving_mean([one.get(name, 0.0) for one in added]) for name in parts}
    return {
        "x": [point.cycle for point in points[begin:]],
        "lines": {
            "reward": {"total": [round(point.total, 3) for point in points[begin:]], f"mean of {MEAN}": means[begin:]},
            "parts": {name: values[begin:] for name, values in by_part.items()},
            "needs": {name: [short((point.needs_after or {}).get(name)) for point in points[begin:]] for name in needs},
        },
    }


def thinned(found: Columns, most: int) -> Columns:
    """The lines with at most `most` places: each the last of some neighbours, with their mean."""
    size = -(-len(found["x"]) // most) or 1
    begins = range(0, len(found["x"]), size)

    def means(values: Sequence[float | None]) -> list[float | None]:
        groups = ([one for one in values[at : at + size] if one is not None] for at in begins)
        return [round(fmean(known), 4) if known else None for known in groups]

    x = [found["x"][min(at + size, len(found["x"])) - 1] for at in begins]
    lines = {chart: {name: means(line) for name, line in named.items()} for chart, named in found["lines"].items()}
    return {"x": x, "lines": lines}


def short(value: float | None) -> float | None:
    """The value to three digits: what a chart can show."""
    return None if value is None else round(value, 3)


def moving_mean(values: Sequence[float | None], window: int = MEAN) -> list[float | None]:
    """The mean of the last `window` values up to each place, to four digits; None values are left out, without any it
    is None, as before the FEWEST_SMOOTHED-th value of more."""
    enough = FEWEST_SMOOTHED if sum(value is not None for value in values) >= FEWEST_SMOOTHED else 1
    known = 0
    found: list[float | None] = []
    total, count = 0.0, 0
    for at, value in enumerate(values):
        gone = values[at - window] if at >= window else None
        for one, sign in ((value, 1), (gone, -1)):
            if one is not None:
                total, count = total + sign * one, count + sign
        known += value is not None
        found.append(round(total / count, 4) if count and known >= enough else None)
    return found


class Spark(NamedTuple):
    """The line of a key figure, drawn from its lowest to its highest value."""

    path: str
    """100 wide and 26 high; empty of fewer than two values."""
    low: str
    high: str
    """The ends in words; empty without a path."""


_ENDS: Final[dict[str, Callable[[float], str]]] = {
    "reward": lambda value: signed(value, 2),
    "needs": lambda value: fixed(value, 2),
    "exploration": lambda value: fixed(value, 0),
}
"""How the ends of a key figure's line are written, if not as a share."""


def sparks(points: Sequence[ExperiencePoint], shown: int) -> dict[str, Spark]:
    """Key figure -> its line over the last `shown` of these cycles. Those before them count in the means of the first
    ones."""
    begin = max(0, len(points) - shown)
    if len(points) == begin:
        return {}
    levels = [fmean(point.needs_after.values()) if point.needs_after else None for point in points]
    executed = [point.skill if point.outcome in EXECUTED else None for point in points]
    met = [float(len(set(executed[max(0, at + 1 - MEAN) : at + 1]) - {None})) for at in range(len(points))]
    worked = [float(p.outcome == "success") if p.outcome in EXECUTED else None for p in points]
    lines: dict[str, Sequence[float | None]] = {
        "reward": moving_mean([point.total for point in points]),
        "format": moving_mean([float(point.valid) for point in points]),
        "tools": moving_mean(worked),
        "needs": levels,
        "exploration": met,
        "coverage": moving_mean([point.coverage for point in points]),
    }
    count = len(points) - begin
    step = -(-count // 100)
    places = [at for at in range(count) if points[begin + at].cycle % step == 0 or at == count - 1]
    return {
        name: _spark(
            [(at, values[begin + at]) for at in places],
            count,
            _ENDS.get(name, lambda share: f"{fixed(100 * share, 0)}%"),
        )
        for name, values in lines.items()
    }


def _spark(places: Sequence[tuple[int, float | None]], count: int, write: Callable[[float], str]) -> Spark:
    """The line of the values at these places of `count`.

    Each step is relative to the one before: of a line that has moved on by a step only its ends are new.
    """
    known = [(at, value) for at, value in places if value is not None]
    if len(known) < 2:
        return Spark("", "", "")
    low, high = min(value for _, value in known), max(value for _, value in known)
    flat, wide = high - low < 1e-9, 100 / (count - 1)
    heights = [130 if flat else round(240 - 220 * (value - low) / (high - low)) for _, value in known]
    begins = zip(known, heights, known[1:], heights[1:], strict=False)
    steps = [f"l{(at - before) * wide:.4g} {(y - above) / 10:g}" for (before, _), above, (at, _), y in begins]
    path = " ".join([f"M{known[0][0] * wide:.1f} {heights[0] / 10:g}", *steps])
    return Spark(path, write(low), write(high))


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

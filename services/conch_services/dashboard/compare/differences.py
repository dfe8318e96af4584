"""The subjects beside each other: differences with intervals, curves, acts in equal states. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from conch.experience import ExperiencePoint
from conch.views import EXECUTED, Interval, difference_interval, moves_goal
from conch_services.dashboard.compare.subjects import ComparedSubject
from conch_services.dashboard.drawings.numerals import fixed, signed
from conch_services.dashboard.story.strip import adds

MOST_POINTS: Final = 40
"""Points of a curve."""
MOST_STATES: Final = 6
"""States that are shown, those met most often by all."""
MOST_DEEDS: Final = 3
"""Kinds of act of a state, the most frequent."""
MOST_PARTS: Final = 16
LEAST_SHOWN: Final = 0.0005
"""A mean amount below this is not listed: it rounds to nothing."""

Measure = Callable[[ExperiencePoint], float | None]
Written = Callable[[float], str]


class FigureCell(NamedTuple):
    """A figure of one subject, and how far it is from the first one's."""

    said: str
    difference: str
    between: str
    """Its 95 % interval in words; empty: of the first subject, or not known."""
    kind: str
    """more or less, where the interval leaves 0 out; else empty."""


class FigureRow(NamedTuple):
    """A figure of each subject."""

    title: str
    cells: Sequence[FigureCell]


class StateDeeds(NamedTuple):
    """What one subject does in a state."""

    cycles: int
    mean: float | None
    deeds: Sequence[tuple[str, float]]
    """(skill, share), the most frequent first."""
    example: int | None
    """A cycle of it."""


class SameState(NamedTuple):
    """A state that several subjects have met."""

    state: str
    deeds: Sequence[StateDeeds]
    """In the order of the subjects."""


def figure_rows(subjects: Sequence[ComparedSubject]) -> list[FigureRow]:
    """The figures, then the mean amount of each part of the reward; each beside that of the first subject."""
    totals = {id(point): one.total(point) for one in subjects for point in one.points}
    measures: list[tuple[str, Measure, Written, Written]] = [
        ("Reward", lambda one: totals[id(one)], _signed, _signed),
        ("Tool calls that succeed", _succeeds, _percent, _points),
        ("Valid replies", lambda one: float(one.valid), _percent, _points),
        ("Mean of the needs", _needs, _level, _signed),
        ("Acts of 100 that move a goal", lambda one: 100.0 * moves_goal(one), _tenth, _signed_tenth),
    ]
    sums: Counter[str] = Counter()
    paid = {id(point): adds(point) for one in subjects for point in one.points}
    for found in paid.values():
        for name, amount in found.items():
            sums[name] += abs(amount)  # type: ignore[assignment]
    least = LEAST_SHOWN * max(1, len(paid))
    scored = {score.component for one in subjects for point in one.points for score in point.scores}
    named = [name for name, amount in sums.most_common(MOST_PARTS) if amount >= least]
    titles = {name: f"paid for {name}" if name in scored else name for name in named}
    measures += [(titles[name], _amount_of(paid, name), _signed, _signed) for name in named]
    return [_row(title, subjects, of, write, away) for title, of, write, away in measures]


def _amount_of(paid: Mapping[int, Mapping[str, float]], name: str) -> Measure:
    return lambda point: paid[id(point)].get(name, 0.0)


def _row(
    title: str, subjects: Sequence[ComparedSubject], of: Measure, write: Written, write_away: Written
) -> FigureRow:
    columns = [[value for point in one.points if (value := of(point)) is not None] for one in subjects]
    cells = []
    for at, values in enumerate(columns):
        if not values:
            cells.append(FigureCell("–", "", "", ""))
        elif at == 0 or not columns[0]:
            cells.append(FigureCell(write(fmean(values)), "", "", ""))
        else:
            cells.append(difference_cell(write(fmean(values)), difference_interval(columns[0], values), write_away))
    return FigureRow(title, cells)


def difference_cell(said: str, away: Interval, write: Written) -> FigureCell:
    """The cell of a figure that is `away` from the first subject's; `said`: the figure itself."""
    if away.error == float("inf"):
        return FigureCell(said, write(away.value), "too few acts for an interval", "")
    low, high = write(away.low), write(away.high)
    is_out = write(0.0) not in (low, high)  # what rounds to 0 does not leave it out, as it is read
    kind = "" if not is_out else "more" if away.low > 0.0 else "less" if away.high < 0.0 else ""
    return FigureCell(said, write(away.value), f"{low} to {high}".replace(" points", ""), kind)


def curve_data(subjects: Sequence[ComparedSubject]) -> dict[str, object]:
    """The reward of each subject by the number of the act within it, in groups of equal size; the last one of which
    more than half is there ends the axis."""
    longest = max((len(one.points) for one in subjects), default=0)
    width = max(1, -(-longest // MOST_POINTS))
    places = range(0, longest, width)
    lines: dict[str, list[float | None]] = {}
    for one in subjects:
        totals = [one.total(point) for point in one.points]
        groups = [totals[at : at + width] for at in places]
        lines[one.title] = [round(fmean(some), 4) if len(some) * 2 > width else None for some in groups]
    known = max((at for line in lines.values() for at, one in enumerate(line, 1) if one is not None), default=0)
    return {
        "x": [at + 1 for at in places][:known],
        "lines": {title: line[:known] for title, line in lines.items()},
        "width": width,
        "colours": {one.title: one.colour for one in subjects},
    }


def same_states(subjects: Sequence[ComparedSubject]) -> list[SameState]:
    """The states that at least two of the subjects have met, those met most often first."""
    if len(subjects) < 2:
        return []
    met: list[Mapping[str, list[ExperiencePoint]]] = [_by_state(one) for one in subjects]
    counts = {state: sorted((len(one.get(state, ())) for one in met), reverse=True) for one in met for state in one}
    shared = sorted((state for state, count in counts.items() if count[1] > 0), key=lambda one: (-counts[one][1], one))
    return [
        SameState(state, [_deeds(one.get(state, []), of.total) for one, of in zip(met, subjects, strict=True)])
        for state in shared[:MOST_STATES]
    ]


def _by_state(one: ComparedSubject) -> dict[str, list[ExperiencePoint]]:
    points = {point.cycle: point for point in one.points}
    found: dict[str, list[ExperiencePoint]] = defaultdict(list)
    for act in one.states:
        if act.state and act.cycle in points:
            found[act.state].append(points[act.cycle])
    return found


def _deeds(points: Sequence[ExperiencePoint], weigh: Callable[[ExperiencePoint], float]) -> StateDeeds:
    if not points:
        return StateDeeds(0, None, (), None)
    counts = Counter(one.skill for one in points)
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_DEEDS]
    shares = [(skill, count / len(points)) for skill, count in ranked]
    return StateDeeds(len(points), fmean(weigh(one) for one in points), shares, points[-1].cycle)


def _succeeds(point: ExperiencePoint) -> float | None:
    return float(point.outcome == "success") if point.outcome in EXECUTED else None


def _needs(point: ExperiencePoint) -> float | None:
    return fmean(point.needs_after.values()) if point.needs_after else None


def _signed(value: float) -> str:
    return signed(value)


def _signed_tenth(value: float) -> str:
    return signed(value, 1)


def _tenth(value: float) -> str:
    return fixed(value, 1)


def _level(value: float) -> str:
    return fixed(value, 2)


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 1)} %"


def _points(share: float) -> str:
    return f"{signed(100 * share, 1)} points"

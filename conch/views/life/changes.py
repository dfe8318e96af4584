"""What changed between the first and the last cycles of a life, in figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from conch.views.life.key_figures import EXECUTED
from conch.views.life.trend import FEWEST_BATCHES, difference_interval
from conch.views.line import fixed, signed

if TYPE_CHECKING:
    from conch.experience import ExperiencePoint


REWARD_CHANGE: Final = "Reward"
"""Title of the row of the reward."""


class Change(NamedTuple):
    """A row of «what changed»: a figure of the first and of the last cycles."""

    title: str
    first: str
    last: str
    difference: str
    kind: str
    """good, bad, or empty where a change is neither, or no more than chance at 95 %."""


def changes_between(first: Sequence[ExperiencePoint], last: Sequence[ExperiencePoint]) -> list[Change]:
    """The rows of «what changed»."""
    ends = (first, last)
    succeeded, valid, needs, moved = (
        [read(some) for some in ends] for read in (_succeeded, _valid, _needs, lambda some: [*map(moves_goal, some)])
    )
    kinds = [float(len({one.skill for one in some})) for some in ends]
    return [
        _shown(REWARD_CHANGE, _mean([[one.total for one in some] for some in ends]), _signed),
        _shown("Tool calls that succeed", _mean(succeeded), _percent),
        _shown("Valid replies", _mean(valid), _percent),
        _shown("Mean of the needs", _mean(needs), _level),
        _shown("Different kinds of act", _Ends(kinds[0], kinds[1], is_chance=True), _count),
        _shown("Acts that move a goal", _mean(moved, sums=True), _count),
    ]


class _Ends(NamedTuple):
    """A figure of the first and of the last cycles."""

    first: float | None
    last: float | None
    is_chance: bool
    """Whether the change is neither good nor bad, or its 95 % interval has 0 in it, or there are too few values."""


def _mean(values: Sequence[Sequence[float]], *, sums: bool = False) -> _Ends:
    """The means of both ends, or their sums."""
    first, last = values
    if not first or not last:
        return _Ends(fmean(first) if first else None, fmean(last) if last else None, is_chance=True)
    found = difference_interval(first, last)
    read = sum if sums else fmean
    is_sure = min(len(first), len(last)) >= FEWEST_BATCHES and (found.low > 0.0 or found.high < 0.0)
    return _Ends(float(read(first)), float(read(last)), is_chance=not is_sure)


def _shown(title: str, ends: _Ends, write: Callable[[float], str]) -> Change:
    first, last, is_chance = ends
    if first is None or last is None:
        said = ["–" if one is None else write(one) for one in (first, last)]
        return Change(title, said[0], said[1], "–", "")
    if write(first) == write(last):
        return Change(title, write(first), write(last), "±0", "")
    away = last - first
    difference = f"{'−' if away < 0 else '+'}{write(abs(away)).removeprefix('+').replace('%', 'points')}"
    return Change(title, write(first), write(last), difference, "" if is_chance else "good" if away > 0 else "bad")


def _signed(value: float) -> str:
    return signed(value, 2).replace("-", "−")


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 0)} %"


def _level(value: float) -> str:
    return fixed(value, 2)


def _count(value: float) -> str:
    return fixed(value, 0)


def _succeeded(points: Sequence[ExperiencePoint]) -> list[bool]:
    return [one.outcome == "success" for one in points if one.outcome in EXECUTED]


def _valid(points: Sequence[ExperiencePoint]) -> list[bool]:
    return [one.valid for one in points]


def _needs(points: Sequence[ExperiencePoint]) -> list[float]:
    return [fmean(one.needs_after.values()) for one in points if one.needs_after]


def moves_goal(point: ExperiencePoint) -> bool:
    """Whether the act moved a goal."""
    return any(one.component == "goal" and (one.value or 0.0) > 0.0 for one in point.scores)

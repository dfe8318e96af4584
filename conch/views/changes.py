"""What changed between the first and the last cycles of a life, in figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from conch.views.key_figures import EXECUTED
from conch.views.line import fixed, signed

if TYPE_CHECKING:
    from conch.experience import ExperiencePoint


class Change(NamedTuple):
    """A row of «what changed»: a figure of the first and of the last cycles."""

    title: str
    first: str
    last: str
    difference: str
    kind: str
    """good, bad, or empty where a change is neither."""


def changes_between(first: Sequence[ExperiencePoint], last: Sequence[ExperiencePoint]) -> list[Change]:
    """The rows of «what changed»."""
    ends = (first, last)
    return [
        _shown("Reward", [fmean(one.total for one in some) for some in ends], _signed),
        _shown("Tool calls that succeed", [_share(_succeeded(some)) for some in ends], _percent),
        _shown("Valid replies", [_share([one.valid for one in some]) for some in ends], _percent),
        _shown("Mean of the needs", [_needs(some) for some in ends], _level),
        _shown(
            "Different kinds of act", [float(len({one.skill for one in some})) for some in ends], _count, good=False
        ),
        _shown("Acts that move a goal", [float(sum(map(moves_goal, some))) for some in ends], _count),
    ]


def _shown(title: str, ends: Sequence[float | None], write: Callable[[float], str], *, good: bool = True) -> Change:
    """`good`: whether more is better; else a change is neither."""
    first, last = ends
    if first is None or last is None:
        said = ["–" if one is None else write(one) for one in ends]
        return Change(title, said[0], said[1], "–", "")
    if write(first) == write(last):
        return Change(title, write(first), write(last), "±0", "")
    away = last - first
    difference = f"{'−' if away < 0 else '+'}{write(abs(away)).removeprefix('+').replace('%', 'points')}"
    kind = "" if not good else "good" if away > 0 else "bad"
    return Change(title, write(first), write(last), difference, kind)


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


def _share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


def _needs(points: Sequence[ExperiencePoint]) -> float | None:
    levels = [fmean(one.needs_after.values()) for one in points if one.needs_after]
    return fmean(levels) if levels else None


def moves_goal(point: ExperiencePoint) -> bool:
    """Whether the act moved a goal."""
    return any(one.component == "goal" and (one.value or 0.0) > 0.0 for one in point.scores)

"""Totals of recorded acts under one weight set: the rules' scores are kept, the total is made anew from them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from conch.experience import ExperiencePoint, SkillTotal
from conch.rewards import parts_of_act, total
from conch_schemas import Part, WeightsSet

A = TypeVar("A", bound=ExperiencePoint | SkillTotal)


class _Scored(NamedTuple):
    value: float | None
    status: str
    explanation: str = ""


class OneWeighing(NamedTuple, Generic[A]):
    """What makes totals of acts under several weight sets comparable."""

    total: Callable[[A], float]
    """The total of an act under it."""
    is_other: bool = False
    """Whether it may differ from the recorded one."""
    left_out: tuple[str, ...] = ()
    """Components in force now that count nothing in it, as some of the acts have no score of them."""
    pays: bool = True
    """Whether any component with a weight counts."""


def is_weighed_once(sets: Sequence[WeightsSet]) -> bool:
    """Whether acts under these sets can be compared by their recorded totals."""
    return len({one.version for one in sets}) < 2


def as_recorded(_: Iterable[SkillTotal]) -> OneWeighing[SkillTotal]:
    """The recorded totals, of acts under one weight set."""
    return OneWeighing(_recorded)


def one_weighing(sets: Sequence[WeightsSet], points: Iterable[ExperiencePoint]) -> OneWeighing[ExperiencePoint]:
    """The weights in force, the last of these sets, for these acts, whatever they were recorded under.

    A component that some of the acts were not scored for counts nothing in any: with a part of the acts alone it would
    be taken for a change of the agent. A score that is still to come leaves nothing out.
    """
    if is_weighed_once(sets):
        return OneWeighing(_recorded)
    paying = {one.component for one in sets[-1].parts if one.weight > 0.0 or one.role not in ("paid", "held_out")}
    lacking: set[str] = set()
    for point in points:
        if point.complete:
            lacking |= paying.difference(score.component for score in point.scores)
    parts = [one for one in sets[-1].parts if one.component not in lacking]
    left_out = tuple(one.component for one in sets[-1].parts if one.component in lacking)
    pays = any(one.weight > 0.0 for one in parts)
    return OneWeighing(weigher(parts), is_other=True, left_out=left_out, pays=pays)


def weigher(parts: Sequence[Part]) -> Callable[[ExperiencePoint], float]:
    """A function that gives the total of a recorded act under these parts."""
    within = {task: parts_of_act(parts, task=task) for task in (False, True)}
    of_task = {part.component for part in parts if part.task_weight is not None}

    def weigh(point: ExperiencePoint) -> float:
        scores: dict[str, _Scored] = {}
        for one in point.scores:
            scores.setdefault(one.component, _Scored(one.value, one.status))
        task = any(one.weight > 0.0 and one.component in of_task for one in point.scores)
        return total(within[task], scores).total

    return weigh


def _recorded(point: ExperiencePoint | SkillTotal) -> float:
    return point.total

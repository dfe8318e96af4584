"""Totals of recorded acts under other weights: the rules' scores are kept, the total is made anew from them. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from conch.experience import ExperiencePoint
from conch.requests import BEARING
from conch.views import Interval, mean_interval, weigher
from conch_schemas import Part

MOST_SKILLS: Final = 8
MOST_ACTS: Final = 5
"""Acts of each list, those whose totals change most."""
MOST_POINTS: Final = 60
"""Points of a curve: of more acts several in a row are one."""


class SkillChange(NamedTuple):
    """What acts of one skill earn."""

    skill: str
    cycles: int
    now: float
    then: float


class ActChange(NamedTuple):
    """An act whose total would be another one."""

    cycle: int
    skill: str
    now: float
    then: float


class WhatIf(NamedTuple):
    """The acts under the weights in force and under the others."""

    cycles: int
    now: float
    then: float
    change: Interval
    """Of the mean total, then minus now."""
    skills: Sequence[SkillChange]
    """The most frequent first."""
    best_now: str
    """The skill that is paid best, of those done often; empty: none is."""
    best_then: str
    gain: Sequence[ActChange]
    lose: Sequence[ActChange]
    x: Sequence[int]
    now_curve: Sequence[float]
    then_curve: Sequence[float]


def payable(parts: Sequence[Part]) -> list[str]:
    """The components that a table of weights may pay, in the order of the set."""
    return [one.component for one in parts if one.role == "paid" and one.component not in BEARING]


def shares(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights in proportion with the sum 1; empty where all are 0."""
    whole = math.fsum(weights.values())
    return {name: weight / whole for name, weight in weights.items()} if whole > 0.0 else {}


def weighed(parts: Sequence[Part], table: Mapping[str, float]) -> tuple[Part, ...]:
    """The set with the weights of a table of one's own: what it does not name is only watched."""
    return tuple(
        part.model_copy(update={"weight": table.get(part.component, 0.0), "task_weight": None})
        if part.role == "paid"
        else part
        for part in parts
    )


def what_if(points: Sequence[ExperiencePoint], parts: Sequence[Part], table: Mapping[str, float]) -> WhatIf | None:
    """The acts, oldest first, under the set in force and under the table; None without any."""
    if not points:
        return None
    now, then = weigher(parts), weigher(weighed(parts, table))
    acts = [ActChange(one.cycle, one.skill, now(one), then(one)) for one in points]
    away = [one.then - one.now for one in acts]
    ranked = sorted(acts, key=lambda one: (one.then - one.now, one.cycle))
    skills = _by_skill(acts)
    often = [one for one in skills if one.cycles >= max(2, len(acts) // 50)]
    width = -(-len(acts) // MOST_POINTS)
    some = [acts[at : at + width] for at in range(0, len(acts), width)]
    return WhatIf(
        cycles=len(acts),
        now=fmean(one.now for one in acts),
        then=fmean(one.then for one in acts),
        change=mean_interval(away),
        skills=skills[:MOST_SKILLS],
        best_now=max(often, key=lambda one: one.now).skill if often else "",
        best_then=max(often, key=lambda one: one.then).skill if often else "",
        gain=[one for one in ranked[: -MOST_ACTS - 1 : -1] if one.then - one.now >= 0.0005],
        lose=[one for one in ranked[:MOST_ACTS] if one.then - one.now <= -0.0005],
        x=[one[-1].cycle for one in some],
        now_curve=[round(fmean(act.now for act in one), 4) for one in some],
        then_curve=[round(fmean(act.then for act in one), 4) for one in some],
    )


def _by_skill(acts: Sequence[ActChange]) -> list[SkillChange]:
    found: dict[str, list[ActChange]] = defaultdict(list)
    for one in acts:
        found[one.skill].append(one)
    made = [
        SkillChange(skill, len(some), fmean(one.now for one in some), fmean(one.then for one in some))
        for skill, some in found.items()
    ]
    return sorted(made, key=lambda one: (-one.cycles, one.skill))

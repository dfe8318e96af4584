"""The learning curve of a lineage: the moving mean of each adapter's totals. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Final

from conch.views.base import View

if TYPE_CHECKING:
    from conch.experience import AdapterAct

MOST_POINTS: Final = 400
"""Points of a curve: of more acts several in a row are one point."""
MOST_CURVES: Final = 8
"""Adapters with a curve of their own: those that acted last."""
SMOOTH: Final = 25
"""Acts of an adapter that its moving mean is taken over."""
FEWEST_SMOOTHED: Final = 8
"""Acts that a moving mean is of at least, unless there are fewer in all: the mean of the first two or three would be
drawn as a rise or a fall of the curve (ours)."""
BASE_ALONE: Final = "base"
"""Name of the curve of the model without an adapter."""


class LearningCurve(View):
    """The mean total of an adapter's last 25 acts, by cycle."""

    cycles: tuple[int, ...]
    """The last cycle of each point."""
    curves: dict[str, tuple[float | None, ...]]
    """By name: `base`, else generation and first digits of the digest. None where it did not act, and before its
    FEWEST_SMOOTHED-th act of more."""


def learning_curve(acts: Sequence[AdapterAct], names: Mapping[str | None, str]) -> LearningCurve:
    """The curves of these acts, oldest first; `names`: of each adapter that is known."""
    counts = Counter(act.adapter for act in acts)
    last = {act.adapter: place for place, act in enumerate(acts)}
    shown = sorted(sorted(last, key=lambda one: -last[one])[:MOST_CURVES], key=lambda one: last[one])
    means = {adapter: deque[float](maxlen=SMOOTH) for adapter in shown}
    width = max(1, ceil(len(acts) / MOST_POINTS))
    cycles: list[int] = []
    lines: dict[str | None, list[float | None]] = {adapter: [] for adapter in shown}
    for place in range(0, len(acts), width):
        bucket = acts[place : place + width]
        points: dict[str | None, float] = {}
        for act in bucket:
            if act.adapter in means:
                means[act.adapter].append(act.total)
                if len(means[act.adapter]) >= FEWEST_SMOOTHED or counts[act.adapter] < FEWEST_SMOOTHED:
                    points[act.adapter] = fmean(means[act.adapter])
        cycles.append(bucket[-1].cycle)
        for adapter, line in lines.items():
            line.append(points.get(adapter))
    curves = {names.get(one) or str(one)[:12]: tuple(line) for one, line in lines.items()}
    return LearningCurve(cycles=tuple(cycles), curves=curves)

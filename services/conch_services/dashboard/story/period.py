"""A part of a life as the story page shows it: its curve, its own verdict, what changed in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from conch.experience import ExperiencePoint, ExperienceReader
from conch.views import ENDS, changes_between, life_evidence
from conch_services.dashboard.ranges.wanted import WantedRange
from conch_services.dashboard.ranges.window import CycleWindow, points_in, window_of
from conch_services.dashboard.story.curve import LEAST_WIDTH, LifeBucket, LifeCurve
from conch_services.dashboard.story.reading import (
    DOES_LAST,
    LifeFigures,
    does_most,
)

EXACT: Final = 100_000
"""Cycles of the longest part that is read cycle by cycle: 0.1 s. A longer one has the buckets of the whole life."""
LEAST_ENDS: Final = 20
"""Cycles of the shortest ends that are compared."""


def period_figures(reader: ExperienceReader, agent: str, life: LifeFigures, wanted: WantedRange) -> LifeFigures:
    """The figures of this range of the life."""
    window = window_of(reader, agent, wanted)
    width, buckets = _buckets(reader, agent, life, window)
    cycles = sum(one.cycles for one in buckets)
    ends = min(ENDS, cycles // 2)
    last = points_in(reader, agent, window, max(ENDS, DOES_LAST))
    first = _first(reader, agent, window, buckets)
    moves = [one for one in life.moves if window.has(one.cycle)]
    return replace(
        life,
        window=window,
        width=width,
        buckets=buckets,
        begun=reader.charts.acted_at(agent, [one.first for one in buckets]),
        evidence=life_evidence(reader, agent, window.first, window.last, acts=cycles, moved=len(moves)),
        moved=len(moves),
        moves=moves,
        ends=ends,
        changes=changes_between(first[:ends], last[-ends:]) if ends >= LEAST_ENDS else (),
        paid_first=fmean(one.total for one in first[:ends]) if ends >= LEAST_ENDS else None,
        does=does_most(Counter(one.skill for one in last[-DOES_LAST:])) if last else (),
    )


def _buckets(
    reader: ExperienceReader, agent: str, life: LifeFigures, window: CycleWindow
) -> tuple[int, Sequence[LifeBucket]]:
    """(cycles of a bucket, the buckets of the window)."""
    if window.cycles > EXACT and life.width <= window.cycles:
        inside = [one for one in life.buckets if one.first + life.width > window.first and window.has(one.first)]
        return life.width, inside
    curve = LifeCurve(1 if window.cycles <= LEAST_WIDTH * LEAST_ENDS else LEAST_WIDTH)
    for page in reader.charts.totals(agent, window.first, window.last + 1):
        curve.add(page)
    return curve.width, curve.buckets()


def _first(
    reader: ExperienceReader, agent: str, window: CycleWindow, buckets: Sequence[LifeBucket]
) -> list[ExperiencePoint]:
    """The first cycles of the window, at most ENDS."""
    if not buckets:
        return []
    count, behind = 0, window.last + 1
    for one, after in zip(buckets, [*buckets[1:], None], strict=True):
        count += one.cycles
        if count >= ENDS:
            behind = window.last + 1 if after is None else after.first
            break
    found = points_in(reader, agent, CycleWindow(window.first, behind - 1), max(count, ENDS))
    return found[:ENDS]

"""The figures of a run, read from its store in pages: memory does not grow with its cycles but for their totals."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import Final

from conch.experience import ChartReader, ExperiencePoint, ExperienceReader
from conch.report.models import (
    ReportedChange,
    ReportedComponent,
    ReportedCycle,
    ReportedGoal,
    ReportedRun,
    ReportedVerdict,
)
from conch.views import ENDS, GoalPaceShown, chain_start, changes_between, life_evidence, life_verdict, moves_goal
from conch.witness import ForgottenRecords, Verification
from conch_schemas import Mark

PAGE: Final = 1000
"""Cycles that are read at a time."""
POINTS: Final = 120
"""Points of the curve, at most."""
SHOWN: Final = 5
"""Best cycles that are named, and worst ones."""
MARKS: Final = 100
"""Marks that the report holds, the last ones."""
STATS: Final = 1000
"""Cycles that the means of the components are of, the last ones."""


@dataclass
class _Counted:
    """What is counted while the cycles go by, the newest first."""

    totals: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    newest: list[ExperiencePoint] = field(default_factory=list)
    """ENDS at most, the newest first."""
    oldest: deque[ExperiencePoint] = field(default_factory=lambda: deque(maxlen=ENDS))
    """The oldest last."""
    moved: int = 0
    """Acts that moved a goal."""
    coverage: float = 0.0
    valid: int = 0
    calls: int = 0
    succeeded: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    best: list[ReportedCycle] = field(default_factory=list)
    worst: list[ReportedCycle] = field(default_factory=list)

    def take(self, page: list[ExperiencePoint]) -> None:
        for point in reversed(page):
            self.totals.append(point.total)
            self.numbers.append(point.cycle)
            if len(self.newest) < ENDS:
                self.newest.append(point)
            self.oldest.append(point)
            self.moved += moves_goal(point)
            self.coverage += point.coverage
            self.valid += point.valid
            self.calls += point.kind == "TOOL"
            self.succeeded += point.kind == "TOOL" and point.outcome == "success"
            self.outcomes[point.outcome] += 1
        lines = [*map(_line, page)]
        self.best = nlargest(SHOWN, [*self.best, *lines], key=lambda one: (one.total, one.cycle))
        self.worst = nsmallest(SHOWN, [*self.worst, *lines], key=lambda one: (one.total, -one.cycle))


def run_figures(store: ExperienceReader, home: str, agent: str, last: int | None = None) -> ReportedRun | None:
    """The figures of the last `last` recorded cycles of an agent; None: of all. None where it has none.

    Raises StoreError, and CheckError at a row of the chain that is no mark.
    """
    counted, newest, oldest = _Counted(), None, None
    for page in _pages(store.charts, agent, last):
        newest, oldest = newest or page[-1], page[0]
        counted.take(page)
    if newest is None or oldest is None:
        return None
    cycles = len(counted.totals)
    marks = Verification(agent, ForgottenRecords(store.chain.forgotten(agent)))
    kept = deque[Mark](maxlen=MARKS)
    for mark in store.chain.marks(agent):
        marks.take(mark)
        kept.append(mark)
    return ReportedRun(
        home=home,
        agent=agent,
        cycles=cycles,
        first=oldest.cycle,
        last=newest.cycle,
        began=oldest.acted_at.isoformat(),
        ended=newest.acted_at.isoformat(),
        verdict=_verdict(store, agent, counted, last),
        changes=tuple(_changes(counted)),
        mean_total=sum(counted.totals) / cycles,
        coverage=counted.coverage / cycles,
        valid=counted.valid / cycles,
        succeeded=counted.succeeded / counted.calls if counted.calls else None,
        outcomes=dict(counted.outcomes.most_common()),
        components=tuple(_components(store.charts, agent, min(cycles, STATS))),
        goals=tuple(_reached(store.charts, agent, cycles)),
        policies=tuple(dict.fromkeys(one or "" for _, one, _ in store.charts.policies(agent, cycles))),
        curve=tuple(curve(counted.totals[::-1])),
        best=tuple(counted.best),
        worst=tuple(counted.worst),
        marks=marks.length,
        chain=_chain_words(store, agent, marks),
        last_marks=tuple(kept),
    )


def _verdict(store: ExperienceReader, agent: str, counted: _Counted, last: int | None) -> ReportedVerdict:
    ends = (counted.numbers[-1], counted.numbers[0]) if last is not None else (0, None)
    found = life_verdict(life_evidence(store, agent, *ends, acts=len(counted.totals), moved=counted.moved))
    pace = GoalPaceShown.of(found.pace)
    return ReportedVerdict(
        kind=found.kind, headline=found.headline, details=found.details, start=found.start, pace=pace
    )


def _changes(counted: _Counted) -> Iterator[ReportedChange]:
    if len(counted.totals) < 2 * ENDS:
        return
    for one in changes_between([*counted.oldest][::-1], counted.newest[::-1]):
        yield ReportedChange(**one._asdict())


def curve(totals: list[float], points: int = POINTS) -> Iterator[float]:
    """Means of equally many totals each, of at most `points` groups; the last group may have fewer."""
    size = max(1, -(-len(totals) // points))
    groups = (totals[at : at + size] for at in range(0, len(totals), size))
    return (sum(group) / len(group) for group in groups)


def _pages(charts: ChartReader, agent: str, last: int | None) -> Iterator[list[ExperiencePoint]]:
    """Pages of cycles, the newest page first, each oldest first."""
    before, left = None, last
    while (left is None or left > 0) and (
        page := charts.points(agent, PAGE if left is None else min(PAGE, left), before)
    ):
        yield page
        before, left = page[0].cycle, None if left is None else left - len(page)


def _line(point: ExperiencePoint) -> ReportedCycle:
    return ReportedCycle(cycle=point.cycle, action=point.skill or point.kind, outcome=point.outcome, total=point.total)


def _components(charts: ChartReader, agent: str, last: int) -> Iterator[ReportedComponent]:
    for one in charts.component_stats(agent, last):
        yield ReportedComponent(
            component=one.component, scorer=one.scorer, weight=one.weight, scored=one.scored, mean=one.mean
        )


def _reached(charts: ChartReader, agent: str, last: int) -> Iterator[ReportedGoal]:
    reached: dict[str, int] = {}
    for cycle, checks in charts.goal_checks(agent, last):
        for check in checks:
            if check.outcome == "achieved":
                reached.setdefault(check.goal, cycle)
    return (ReportedGoal(goal=goal, cycle=cycle) for goal, cycle in reached.items())


def _chain_words(store: ExperienceReader, agent: str, marks: Verification) -> str:
    marks.begin_at(chain_start(store.retention.removals(agent)))
    if problems := marks.broken():
        return f"{len(problems)} problems were found in the chain, the first: {problems[0].what}"
    return f"each of the {marks.length} marks follows from the one before"

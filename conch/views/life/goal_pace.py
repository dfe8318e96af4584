"""Acts for a goal: how many acts an agent takes from a goal's arrival to its being reached, at first and at last. Pure.

An act lists every goal that was open then, so that acts alone tell when a goal came, and whether it was reached. A goal
that is open, or was dropped, counts at its age: over reached goals alone the figure flatters an agent that reaches easy
ones and leaves the others. Goals that the agent set itself count once a person has accepted them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from conch.experience import ExperienceReader, ShownCheck
from conch.views.base import View

WINDOW: Final = 200
"""Most acts of each end of a life that are compared."""
FEWEST_GOALS: Final = 8
"""Goals of each end, at least, of which it is said whether they take fewer acts (ours)."""
FEWEST_OF_KIND: Final = 3
"""Acts of a kind that count in blind choice."""
MOST_LOOKS: Final = 300
"""Acts that are read at most to find when goals came that were open before the last acts."""
DRAWS: Final = 2000
"""Samples of the bootstrap (Efron, 1979) of the interval."""
_NUMBERED: Final = re.compile(r"(?:[-_.]?\w*\d\w*)+$")
"""The end of a goal's id by which goals of one kind differ, as `-2026-11` in `count-2026-11`."""

ListedGoals = tuple[int, Sequence[ShownCheck]]
"""A cycle, and the checks of the goals that were open in it."""


class GoalSpan(NamedTuple):
    """A goal within some acts."""

    goal: str
    came: int
    """Cycle of the first act in which it was open."""
    over: int
    """Cycle of the last one."""
    is_reached: bool
    """Whether that act reached it; else it was dropped, or is open."""

    @property
    def acts(self) -> int:
        """Acts from its arrival to its being reached, or its age."""
        return self.over - self.came + 1


class GoalKind(NamedTuple):
    """Goals of one kind in the last acts."""

    kind: str
    goals: int
    reached: int
    acts: float
    """Mean acts for a goal."""


class GoalPace(NamedTuple):
    """Acts for a goal at the two ends of a life."""

    window: int
    """Acts of each end."""
    first: float | None
    """Mean acts for a goal in the first ones; None: no goal was open."""
    last: float | None
    times: float | None
    """How many times as many acts a typical goal takes at last: the ratio of the geometric means, as acts for a goal
    are skewed, and one stuck goal would hide what all others show. None: there are too few goals."""
    low: float | None
    """Ends of the 95 % interval of `times`."""
    high: float | None
    first_rate: float
    """Goals reached in 100 acts, in the first ones."""
    last_rate: float
    blind_rate: float | None = None
    """The same of choosing each usual kind of act as often as any other; None: there are too few kinds."""
    kinds: tuple[GoalKind, ...] = ()
    """Of the last acts, the most goals first."""

    @property
    def words(self) -> tuple[str, ...]:
        """The figures in sentences; empty where there was no goal at one of the ends."""
        if self.first is None or self.last is None:
            return ()
        change = ""
        if self.times is not None:
            change = f"; a typical one {self.times:.2f} times as many (95 %: {self.low:.2f} to {self.high:.2f})"
        blind = "" if self.blind_rate is None else f"; {self.blind_rate:.1f} by choosing its kinds of act blindly"
        return (
            f"A goal took {self.first:.1f} acts at first and {self.last:.1f} at last{change}. Compared are the first "
            f"and the last {self.window:,} acts, goals that are open or were dropped at their age.",
            f"Goals reached in 100 acts: {self.first_rate:.1f} at first, {self.last_rate:.1f} at last{blind}.",
        )

    @property
    def is_fewer(self) -> bool:
        """Whether goals take fewer acts than at first: the mean, and a typical one at 95 %."""
        fewer = self.first is not None and self.last is not None and self.last < self.first
        return fewer and self.high is not None and self.high < 1.0

    @property
    def is_more(self) -> bool:
        """Whether they take more."""
        more = self.first is not None and self.last is not None and self.last > self.first
        return more and self.low is not None and self.low > 1.0


class GoalKindShown(View):
    """Goals of one kind in the last acts."""

    kind: str
    """The goal's id without the number at its end."""
    goals: int
    reached: int
    acts: float
    """Mean acts for a goal, open and dropped ones at their age."""


class GoalPaceShown(View):
    """Acts for a goal in the first and the last acts that are judged; open and dropped goals count at their age."""

    window: int
    """How many acts the first ones are, and the last ones."""
    first: float | None
    """Mean acts for a goal in the first ones; None: no goal was open. `last`: the same in the last ones."""
    last: float | None
    times: float | None
    """How many times as many acts a typical goal takes at last, by geometric means; None: there are too few goals."""
    low: float | None
    """Lower end of the 95 % interval of `times`, `high` the upper end."""
    high: float | None
    first_rate: float
    """Goals reached in 100 acts, in the first ones; `last_rate`: in the last ones."""
    last_rate: float
    blind_rate: float | None
    """The same of choosing each usual kind of act as often as any other; None: there are too few kinds."""
    kinds: tuple[GoalKindShown, ...]
    """Of the last acts, the most goals first."""

    @classmethod
    def of(cls, pace: GoalPace | None) -> GoalPaceShown | None:
        """The pace as a document; None of none."""
        if pace is None:
            return None
        kinds = tuple(GoalKindShown(**kind._asdict()) for kind in pace.kinds)
        return cls(**pace._asdict() | {"kinds": kinds})


def goal_spans(acts: Iterable[ListedGoals], came: Mapping[str, int] | None = None) -> list[GoalSpan]:
    """The goals that were open in neighbouring acts, oldest act first, in the order in which they were over.

    `came`: the cycle in which a goal came that was open before the first act.
    """
    came = came or {}
    opened: dict[str, int] = {}
    seen: dict[str, int] = {}
    spans: list[GoalSpan] = []
    for cycle, checks in acts:
        accepted = [check for check in checks if check.accepted]
        listed = {check.goal for check in accepted}
        dropped = [goal for goal in opened if goal not in listed]
        spans += [GoalSpan(goal, opened.pop(goal), seen[goal], False) for goal in dropped]
        for check in accepted:
            first = cycle if check.goal in seen else came.get(check.goal, cycle)
            opened.setdefault(check.goal, first)
            seen[check.goal] = cycle
            if check.outcome == "achieved":
                spans.append(GoalSpan(check.goal, opened.pop(check.goal), cycle, True))
    return [*spans, *(GoalSpan(goal, first, seen[goal], False) for goal, first in opened.items())]


def arrivals(goals: Set[str], listed: Callable[[int], Set[str]], low: int, high: int) -> dict[str, int]:
    """The cycle in which each goal came, all of which were open in the cycle `high`; `low`: the first one that is kept.

    `listed` gives the goals that were open in a cycle. Goals that came together are looked for together; after
    MOST_LOOKS a goal counts from the earliest cycle in which it was seen.
    """
    found: dict[str, int] = {}
    left, looks = [(frozenset(goals), low, high)], 0
    while left:
        some, begin, end = left.pop()
        if not some:
            continue
        if begin >= end or looks >= MOST_LOOKS:
            found |= dict.fromkeys(some, end)
            continue
        middle, looks = (begin + end) // 2, looks + 1
        there = some & listed(middle)
        left += [(there, begin, middle), (some - there, middle + 1, end)]
    return found


def goal_pace(
    first: Sequence[ListedGoals], last: Sequence[ListedGoals], came: Mapping[str, int] | None = None
) -> GoalPace | None:
    """The pace at the two ends of a life, each some neighbouring acts, oldest first; None: no goal was ever open.

    `came`: when the goals came that were open before the last acts. The same acts give the same figures.
    """
    early, late = goal_spans(first), goal_spans(last, came)
    if not early and not late:
        return None
    times = low = high = None
    if min(len(early), len(late)) >= FEWEST_GOALS:
        # No goal is older than the first acts in them: a stuck one would make the same agent look worse later.
        most = len(first)
        times, low, high = ratio([min(span.acts, most) for span in early], [min(span.acts, most) for span in late])
    return GoalPace(
        window=len(last),
        first=_mean(early, len(first)),
        last=_mean(late, len(first) or len(last)),
        times=times,
        low=low,
        high=high,
        first_rate=_rate(early, len(first)),
        last_rate=_rate(late, len(last)),
        kinds=tuple(_kinds(late)),
    )


def blind_rate(kinds: Mapping[int, str], spans: Iterable[GoalSpan]) -> float | None:
    """Goals reached in 100 acts that choose each kind of act as often as any other, and reach by it what these did.

    `kinds`: cycle -> kind of act. None: fewer than two kinds have FEWEST_OF_KIND acts.
    """
    reached = Counter(span.over for span in spans if span.is_reached)
    counts: dict[str, list[int]] = defaultdict(list)
    for cycle, kind in kinds.items():
        counts[kind].append(reached[cycle])
    means = [fmean(some) for some in counts.values() if len(some) >= FEWEST_OF_KIND]
    return 100.0 * fmean(means) if len(means) > 1 else None


def read_goal_pace(reader: ExperienceReader, agent: str, begin: int, behind: int) -> GoalPace | None:
    """The pace of an agent's cycles from `begin` on and before `behind`, of which some 900 are read at most; None: no
    goal was open, or the life is too short. Raises StoreError."""
    window = min(WINDOW, (behind - begin) // 2)
    if window < 1:
        return None

    def listed(cycle: int) -> frozenset[str]:
        acts = reader.charts.goal_checks(agent, 1, cycle + 1)
        return frozenset(check.goal for _, checks in acts for check in checks)

    first = [act for act in reader.charts.goal_checks(agent, window, begin + window) if act[0] >= begin]
    last = [act for act in reader.charts.goal_checks(agent, window, behind) if act[0] >= begin]
    came = {}
    if last:
        opened = frozenset(check.goal for check in last[0][1])
        came = arrivals(opened, listed, begin, last[0][0])
    pace = goal_pace(first, last, came)
    if pace is None:
        return None
    ends = [(begin + window, first), (behind, last)]
    kinds = {act.cycle: act.skill for end, acts in ends for act in reader.charts.skills(agent, len(acts), end)}
    return pace._replace(blind_rate=blind_rate(kinds, [*goal_spans(first), *goal_spans(last, came)]))


def ratio(early: Sequence[int], late: Sequence[int]) -> tuple[float, float, float]:
    """(the geometric mean of the late values divided by that of the early ones, the ends of its 95 % interval), by
    bootstrap: goals are drawn with repetition, from a fixed seed."""
    draw = np.random.default_rng(0)
    logs = [np.log(np.asarray(some, np.float64)) for some in (early, late)]
    means = [draw.choice(some, (DRAWS, len(some))).mean(axis=1) for some in logs]
    low, high = np.exp(np.quantile(means[1] - means[0], (0.025, 0.975)))
    return float(np.exp(logs[1].mean() - logs[0].mean())), float(low), float(high)


def kind_of(goal: str) -> str:
    """The kind of a goal: its id without the number at its end.

    >>> [kind_of(goal) for goal in ("count-2026-11", "tests", "letter-7b")]
    ['count', 'tests', 'letter']
    """
    return _NUMBERED.sub("", goal) or goal


def _kinds(spans: Iterable[GoalSpan]) -> Iterator[GoalKind]:
    kinds: dict[str, list[GoalSpan]] = defaultdict(list)
    for span in spans:
        kinds[kind_of(span.goal)].append(span)
    for kind, some in sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0])):
        yield GoalKind(kind, len(some), sum(span.is_reached for span in some), fmean(span.acts for span in some))


def _mean(spans: Sequence[GoalSpan], most: int) -> float | None:
    return fmean(min(span.acts, most) for span in spans) if spans else None


def _rate(spans: Iterable[GoalSpan], acts: int) -> float:
    return 100.0 * sum(span.is_reached for span in spans) / acts if acts else 0.0

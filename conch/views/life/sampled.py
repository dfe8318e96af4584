"""What a verdict on a life is made from, read from a store: all of a short life, samples of a long one.

At most about 3,500 acts are read, however long the life is: 15 ms of processor time, and 150 where the weights changed,
as the scores are read then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Final, Generic

from conch.curiosity import entropy
from conch.experience import ExperienceReader, LifeBlock
from conch.views.life.goal_pace import read_goal_pace
from conch.views.life.reweighed import A, OneWeighing, as_recorded, is_weighed_once, one_weighing
from conch.views.life.trend import (
    ENDS,
    LEAST_LIFE,
    MOST_COHORTS,
    LifeStretch,
    checkpoint,
    cohort_count,
    cohorts_of,
    life_trend,
)
from conch.views.life.verdict import Baseline, LifeEvidence

WHOLE: Final = 3000
"""Cycles of the longest life of which every act is read."""
SAMPLE: Final = WHOLE // MOST_COHORTS
"""Neighbouring acts of each cohort of a longer one."""
FIRST_POLICY: Final = 400
"""First acts among which those of the first policy are looked for."""
FEWEST_ACTS: Final = 20
"""Acts of the first policy that make a baseline."""
FEWEST_OF_KIND: Final = 3
"""Acts of a kind that count in the mean of blind choice."""


@dataclass(frozen=True)
class _Acts(Generic[A]):
    """An agent's acts, read with no more than their totals need."""

    agent: str
    last: Callable[[str, int, int], Sequence[A]]
    """The last so many acts of an agent before a cycle, oldest first."""
    weighing: Callable[[Sequence[A]], OneWeighing[A]]

    def newest(self, begin: int, behind: int, most: int) -> list[A]:
        """The newest of the cycles from `begin` on and before `behind`."""
        return [one for one in self.last(self.agent, most, behind) if one.cycle >= begin]

    def spread(self, begin: int, upto: int) -> list[A]:
        """The last acts of each cohort."""
        return [one for ends in pairwise(_ends(begin, upto)) for one in self.newest(*ends, SAMPLE)]


def life_evidence(
    reader: ExperienceReader,
    agent: str,
    first: int = 0,
    last: int | None = None,
    *,
    acts: int | None = None,
    moved: int | None = None,
) -> LifeEvidence:
    """Of an agent's cycles from `first` to `last`, None: of its life as of now.

    A range is judged up to its end, a life up to its last checkpoint. `acts`, `moved`: how many acts there are, and how
    many of them moved a goal, where that is known. Raises StoreError.
    """
    sets = reader.charts.weight_sets(agent)
    if is_weighed_once(sets):
        read = _Acts(agent, reader.charts.skills, as_recorded)
        return _evidence(reader, read, first, last, reader.charts.removed_totals(agent), acts, moved)
    # Sums over removed acts cannot be weighed anew.
    weighed = _Acts(agent, reader.charts.points, partial(one_weighing, sets))
    return _evidence(reader, weighed, first, last, (), acts, moved)


def _evidence(
    reader: ExperienceReader,
    read: _Acts[A],
    first: int,
    last: int | None,
    blocks: Sequence[LifeBlock],
    acts: int | None,
    moved: int | None,
) -> LifeEvidence:
    newest = reader.cycles.last_cycle(read.agent)
    behind = 0 if newest is None else 1 + (newest if last is None else min(last, newest))
    removed = [one for one in blocks if first <= one.cycle < behind]
    _, kept = reader.cycles.neighbours(read.agent, first - 1)
    begins = [cycle for cycle in (kept, *[one.cycle for one in removed[:1]]) if cycle is not None and cycle < behind]
    if not begins:
        return LifeEvidence(acts or 0, 0, moved=moved)
    begin = min(begins)
    span = behind - begin
    known = read.newest(begin, behind, span) if span <= WHOLE else []
    is_known = span <= WHOLE and not removed
    count = len(known) if is_known else span
    judged = checkpoint(count) if last is None else count
    if count < LEAST_LIFE:
        return LifeEvidence(count if acts is None else acts, 0, moved=moved)
    if is_known:
        sample, head = known[:judged], known[:ENDS]
        upto = sample[-1].cycle + 1
    else:
        upto = begin + judged
        sample, head = read.spread(begin, upto), read.newest(begin, begin + ENDS, ENDS)
    weighing = read.weighing([*head, *sample])
    if weighing.left_out and not weighing.pays:
        return LifeEvidence(count if acts is None else acts, 0, moved=moved)
    start = [weighing.total(one) for one in head]
    if removed and removed[0].cycle == begin:
        start = [removed[0].total / removed[0].acts] * removed[0].acts
    if is_known:
        cohorts = cohorts_of([one.cycle for one in sample], [weighing.total(one) for one in sample])
    else:
        cohorts = _cohorts(sample, removed, weighing, begin, upto)
    newest_acts = known[-ENDS:] or read.newest(begin, behind, ENDS)
    return LifeEvidence(
        acts=count if acts is None else acts,
        judged=judged,
        first=begin,
        last=upto - 1,
        trend=life_trend(cohorts, start),
        baseline=_baseline(reader, read, begin, behind, [*head, *sample], weighing),
        diversity=entropy([one.skill for one in newest_acts]) if len(newest_acts) >= ENDS else None,
        moved=moved,
        weighed_anew=weighing.is_other,
        left_out=weighing.left_out,
        since=count - judged,
        pace=read_goal_pace(reader, read.agent, begin, upto),
    )


def _ends(begin: int, upto: int) -> list[int]:
    """The bounds of the cohorts of these cycles."""
    count = cohort_count(upto - begin)
    return [begin + at * (upto - begin) // count for at in range(count + 1)]


def _cohorts(
    sample: Sequence[A], removed: Sequence[LifeBlock], weighing: OneWeighing[A], begin: int, upto: int
) -> list[LifeStretch]:
    ends = _ends(begin, upto)
    counts, sums = [0] * (len(ends) - 1), [0.0] * (len(ends) - 1)
    totals = [(one.cycle, 1, weighing.total(one)) for one in sample]
    for cycle, acts, total in (*totals, *((one.cycle, one.acts, one.total) for one in removed if one.cycle < upto)):
        at = bisect_right(ends, cycle) - 1
        counts[at], sums[at] = counts[at] + acts, sums[at] + total
    some = zip(ends, counts, sums, strict=False)
    return [LifeStretch(first, count, whole / count) for first, count, whole in some if count]


def _baseline(
    reader: ExperienceReader,
    read: _Acts[A],
    begin: int,
    behind: int,
    points: Sequence[A],
    weighing: OneWeighing[A],
) -> Baseline | None:
    """The first policy, where another one acts by now; else blind choice: each kind of act as often as any other."""
    early = reader.charts.decided(read.agent, FIRST_POLICY, begin + FIRST_POLICY)
    now = reader.charts.decided(read.agent, 1, behind)
    if early and now and early[0].policy is not None and now[0].policy != early[0].policy:
        mine = {one.cycle for one in early if one.policy == early[0].policy and one.cycle >= begin}
        acts = read.newest(begin, begin + FIRST_POLICY, FIRST_POLICY)
        totals = [weighing.total(one) for one in acts if one.cycle in mine]
        return Baseline("its first policy", fmean(totals)) if len(totals) >= FEWEST_ACTS else None
    kinds: dict[str, dict[int, float]] = defaultdict(dict)
    for one in points:
        kinds[one.skill][one.cycle] = weighing.total(one)
    means = [fmean(some.values()) for some in kinds.values() if len(some) >= FEWEST_OF_KIND]
    if len(means) < 2:
        return None
    return Baseline(f"choosing blindly among its {len(means)} usual kinds of act", fmean(means))

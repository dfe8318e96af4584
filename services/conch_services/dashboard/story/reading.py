"""What the story page reads of a store: the whole life as a curve, its two ends, and what moved a goal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Final

from conch.experience import ExperiencePoint, ExperienceReader, GoalMove
from conch.views import ENDS, Change, LifeEvidence, changes_between, life_evidence
from conch_schemas import AdapterPromoted, AdapterRolledBack, Event, WeightsSet
from conch_services.dashboard.ranges.window import CycleWindow
from conch_services.dashboard.story.curve import MOST_BUCKETS, LifeBucket, LifeCurve

AT_ONCE: Final = 50_000
"""Cycles that a look reads at most: 50 ms."""
SAMPLE: Final = 40
"""Neighbouring cycles of a bucket that are read of a longer life."""
TAIL: Final = 400
"""Newest cycles that are read again at each look: their late scores change totals."""
MOST_AGENTS: Final = 16
"""Agents whose curve is kept: 1 MB each."""
MOST_MOVES: Final = 20_000
"""Acts that moved a goal of which the cycle is told, the newest."""
DOES_LAST: Final = 400
"""Cycles over which it is told what the agent does."""
MOST_DOES: Final = 6
MOVES: Final = (AdapterPromoted, AdapterRolledBack)
"""The events by which another adapter acts."""


@dataclass(frozen=True)
class LifeFigures:
    """The life of one agent as the page shows it."""

    position: int = 0
    """The store's position on the stream."""
    last_cycle: int | None = None
    width: int = 1
    """Cycles of a bucket."""
    buckets: Sequence[LifeBucket] = ()
    begun: Sequence[datetime | None] = ()
    """When the first act of each bucket was done."""
    evidence: LifeEvidence = field(default_factory=lambda: LifeEvidence(0, 0))
    """What the verdict is made from."""
    moved: int = 0
    """Acts that moved a goal."""
    moves: Sequence[GoalMove] = ()
    changes: Sequence[Change] = ()
    paid_first: float | None = None
    """Mean total of the first `ends` cycles as they were paid, as the curve is; None of a life that is too short."""
    does: Sequence[tuple[str, float]] = ()
    """(skill, share of the last cycles), the most frequent first."""
    newest: ExperiencePoint | None = None
    weight_sets: Sequence[WeightsSet] = ()
    adapters: Sequence[Event] = ()
    """Moves of the pointer to the adapter that acts."""
    ends: int = ENDS
    """Cycles of each end that `changes` compares."""
    window: CycleWindow | None = None
    """The part of the life that this is of; None: all of it."""
    is_sampled: bool = False
    """Whether the curve is of samples, as the whole of a long life was not read yet."""


class _Known:
    """The curve of an agent, and the state of the store that it was read from."""

    def __init__(self) -> None:
        self.curve = LifeCurve()
        self.changes = -1
        """Number of the store's last change; -1: nothing was read."""
        self.begun: dict[int, datetime | None] = {}
        """First cycle of a bucket -> when its first act was done."""
        self.head: list[int] = []
        """The first cycles that are kept, at most ENDS."""

    def read(self, reader: ExperienceReader, agent: str, since: int) -> None:
        """Add the cycles from this one on."""
        for page in reader.charts.totals(agent, since):
            self.curve.add(page)
            behind = self.head[-1] if self.head else -1
            self.head += [cycle for cycle, _ in page[: 2 * ENDS] if cycle > behind][: ENDS - len(self.head)]

    def is_stale(self, reader: ExperienceReader, agent: str, since: int, changes: int) -> bool:
        """Whether a cycle before this one was changed since it was read."""
        return self.changes < 0 or changes < self.changes or reader.charts.is_changed(agent, since, self.changes)


class LifeCurves:
    """The curves of the agents whose page was opened last; a later look reads what is new.

    A look reads AT_ONCE cycles at most. Where there are more, its curve is of samples, until `read` has been called.
    """

    def __init__(self) -> None:
        self._of: dict[str, _Known] = {}

    def look(self, reader: ExperienceReader, agent: str) -> LifeFigures:
        """The agent's life as of now. One look at an agent at a time."""
        position, changes = reader.position(), reader.sampling.changes()
        known = self._of.get(agent) or _Known()
        since = max(0, known.curve.behind - TAIL) if known.changes >= 0 else 0
        is_stale = known.is_stale(reader, agent, since, changes)
        begin = (reader.cycles.neighbours(agent, -1)[1] or 0) if is_stale else since
        last = reader.cycles.last_cycle(agent) or 0
        if last - begin > AT_ONCE:
            known = _sampled(reader, agent, begin, last + 1)
            return self._figures(reader, agent, known, position, is_sampled=True)
        if is_stale:
            known = self._anew(reader, agent, changes)
        else:
            known.read(reader, agent, known.curve.forget(since))
            known.changes = changes
        self._keep(agent, known)
        return self._figures(reader, agent, known, position, is_sampled=False)

    def read(self, reader: ExperienceReader, agent: str) -> None:
        """Read the whole of a life, of a million cycles in about a second."""
        self._keep(agent, self._anew(reader, agent, reader.sampling.changes()))

    def _anew(self, reader: ExperienceReader, agent: str, changes: int) -> _Known:
        known = _Known()
        known.curve.add_removed(reader.charts.removed_totals(agent))
        known.read(reader, agent, 0)
        known.changes = changes
        return known

    def _keep(self, agent: str, known: _Known) -> None:
        self._of.pop(agent, None)
        self._of[agent] = known
        while len(self._of) > MOST_AGENTS:
            del self._of[next(iter(self._of))]

    def _figures(
        self, reader: ExperienceReader, agent: str, known: _Known, position: int, *, is_sampled: bool
    ) -> LifeFigures:
        charts = reader.charts
        buckets = known.curve.buckets()
        last = charts.points(agent, ENDS)
        first = charts.points(agent, len(last), before=known.head[len(last) - 1] + 1) if last else []
        is_long = bool(first and last) and first[-1].cycle < last[0].cycle
        moved, moves = charts.goal_moves(agent, MOST_MOVES)
        acts = None if is_sampled else sum(one.cycles for one in buckets)
        return LifeFigures(
            position=position,
            last_cycle=last[-1].cycle if last else None,
            width=known.curve.width,
            buckets=buckets,
            begun=_begun(reader, agent, known, buckets),
            evidence=life_evidence(reader, agent, acts=acts, moved=moved),
            moved=moved,
            moves=moves,
            changes=changes_between(first, last) if is_long else (),
            paid_first=fmean(one.total for one in first) if is_long else None,
            does=_does(reader, agent),
            newest=last[-1] if last else None,
            weight_sets=charts.weight_sets(agent),
            adapters=[
                one for one in reader.training.walk(agent) if isinstance(one, AdapterPromoted | AdapterRolledBack)
            ],
            is_sampled=is_sampled,
        )


def _sampled(reader: ExperienceReader, agent: str, begin: int, behind: int) -> _Known:
    """A curve of the last SAMPLE cycles of each of its buckets, and of all removed ones; `begin`: the first that is
    kept."""
    known = _Known()
    known.curve.add_removed(reader.charts.removed_totals(agent))
    width = known.curve.width
    while (behind - 1) // width - begin // width >= MOST_BUCKETS // 2:
        width *= 2
    ends = [(at * width, min(behind, (at + 1) * width)) for at in range(begin // width, (behind - 1) // width + 1)]
    spans = [(max(begin, first, end - SAMPLE), end) for first, end in ends]
    known.curve.add(reader.charts.totals_within(agent, spans))
    for page in reader.charts.totals(agent, begin, begin + 2 * ENDS):
        known.head += [cycle for cycle, _ in page[:ENDS]]
    return known


def _begun(reader: ExperienceReader, agent: str, known: _Known, buckets: Sequence[LifeBucket]) -> list[datetime | None]:
    lacking = [one.first for one in buckets if known.begun.get(one.first) is None]
    known.begun |= dict(zip(lacking, reader.charts.acted_at(agent, lacking), strict=True))
    return [known.begun[one.first] for one in buckets]


def _does(reader: ExperienceReader, agent: str) -> list[tuple[str, float]]:
    counts: Counter[str] = Counter()
    for tally in reader.charts.tallies(agent, DOES_LAST):
        counts[tally.skill] += tally.cycles
    return does_most(counts)


def does_most(counts: Counter[str]) -> list[tuple[str, float]]:
    """(skill, its share), the most frequent first."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [(skill, count / counts.total()) for skill, count in ranked[:MOST_DOES]]

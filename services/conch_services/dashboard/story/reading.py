"""What the story page reads of a store: the whole life as a curve, its two ends, and what moved a goal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from conch.curiosity import entropy
from conch.experience import ExperiencePoint, ExperienceReader, GoalMove
from conch.views import ENDS, Change, LifeStretch, LifeVerdict, changes_between, life_verdict
from conch_schemas import AdapterPromoted, AdapterRolledBack, Event, WeightsSet
from conch_services.dashboard.ranges.window import CycleWindow
from conch_services.dashboard.story.curve import LifeBucket, LifeCurve

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
    verdict: LifeVerdict = field(default_factory=lambda: life_verdict((), (), ()))
    moved: int = 0
    """Acts that moved a goal."""
    moves: Sequence[GoalMove] = ()
    changes: Sequence[Change] = ()
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


class LifeCurves:
    """The curves of the agents whose page was opened last; a later look reads what is new."""

    def __init__(self) -> None:
        self._of: dict[str, _Known] = {}
        self._found: dict[str, LifeFigures] = {}
        self._at: dict[str, float] = {}

    def last(self, agent: str) -> LifeFigures | None:
        """What the last look at this agent found; None: there was none."""
        return self._found.get(agent)

    def age(self, agent: str) -> float:
        """Seconds since that look; 0 where there was none."""
        return time.monotonic() - self._at[agent] if agent in self._at else 0.0

    def look(self, reader: ExperienceReader, agent: str) -> LifeFigures:
        """The agent's life as of now. One look at an agent at a time."""
        position = reader.position()
        known = self._of.pop(agent, None) or _Known()
        self._read(reader, agent, known)
        self._of[agent] = known
        while len(self._of) > MOST_AGENTS:
            oldest = next(iter(self._of))
            del self._of[oldest]
            self._found.pop(oldest, None)
            self._at.pop(oldest, None)
        self._at[agent] = time.monotonic()
        self._found[agent] = found = self._figures(reader, agent, known, position)
        return found

    def _figures(self, reader: ExperienceReader, agent: str, known: _Known, position: int) -> LifeFigures:
        charts = reader.charts
        buckets = known.curve.buckets()
        last = charts.points(agent, ENDS)
        first = charts.points(agent, len(last), before=known.head[len(last) - 1] + 1) if last else []
        moved, moves = charts.goal_moves(agent, MOST_MOVES)
        skills = [point.skill for point in last]
        return LifeFigures(
            position=position,
            last_cycle=last[-1].cycle if last else None,
            width=known.curve.width,
            buckets=buckets,
            begun=_begun(reader, agent, known, buckets),
            verdict=life_verdict(
                [LifeStretch(one.first, one.cycles, one.mean) for one in buckets],
                [point.total for point in first],
                [point.total for point in last],
                diversity=entropy(skills) if len(skills) == ENDS else None,
                moved=moved,
            ),
            moved=moved,
            moves=moves,
            changes=changes_between(first, last) if first and last and first[-1].cycle < last[0].cycle else (),
            does=_does(reader, agent),
            newest=last[-1] if last else None,
            weight_sets=charts.weight_sets(agent),
            adapters=[
                one for one in reader.training.walk(agent) if isinstance(one, AdapterPromoted | AdapterRolledBack)
            ],
        )

    def _read(self, reader: ExperienceReader, agent: str, known: _Known) -> None:
        """Bring the curve up to date: its end anew, and all of it where an older cycle was changed since."""
        changes = reader.sampling.changes()
        since = known.curve.forget(known.curve.behind - TAIL) if known.changes >= 0 else 0
        if known.changes < 0 or changes < known.changes or reader.charts.is_changed(agent, since, known.changes):
            known.curve, known.begun, known.head, since = LifeCurve(), {}, [], 0
            known.curve.add_removed(reader.charts.removed_totals(agent))
        for page in reader.charts.totals(agent, since):
            known.curve.add(page)
            behind = known.head[-1] if known.head else -1
            known.head += [cycle for cycle, _ in page[: 2 * ENDS] if cycle > behind][: ENDS - len(known.head)]
        known.changes = changes


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

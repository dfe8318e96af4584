"""What happened beside the acts of a life, for its curve: starts, pauses, policies, alarms, from the stream."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from conch.bus import Bus
from conch.rewards.watch import alarm_name
from conch.text import safe_text
from conch_schemas import (
    AdapterPromoted,
    AdapterRolledBack,
    AgentPaused,
    AgentResumed,
    AlarmRaised,
    ContractViolationError,
    Event,
    PolicySet,
    WeightsSet,
    decode,
    subject_filter,
)
from conch_services.dashboard.story.reading import LifeFigures

READ: Final = (AgentPaused, AgentResumed, AlarmRaised, PolicySet)
MOST_KEPT: Final = 400
"""Moments and spans of an agent that are kept, the newest."""
MOST_AGENTS: Final = 32
TURNS: Final = 2
"""So many changes back to the policy before, in a row, are told by one line, as are those that follow (ours)."""
QUIET: Final = timedelta(minutes=5)
"""Shortest time without an act that is marked (ours)."""
QUIET_TIMES: Final = 5.0
"""By how much it exceeds the usual time of a bucket."""


class Moment(NamedTuple):
    """A vertical line in the curve."""

    kind: str
    """weights, policy, generation, start, pause or quiet."""
    cycle: int
    words: str


@dataclass
class AlarmSpan:
    """Cycles through which an alarm was on."""

    name: str
    """In plain words."""
    first: int
    last: int | None
    """None: it goes on."""


@dataclass
class StreamLife:
    """What the stream says of an agent."""

    read: int = 0
    """Everything up to this stream sequence is in it."""
    policy: str | None = None
    earlier: str | None = None
    """The policy before it."""
    turns: int = 0
    """How often in a row a policy has given way to the one before it, as in the blocks of a trial."""
    paused: datetime | None = None
    moments: list[tuple[datetime, str, str]] = field(default_factory=list)
    """(time, kind, words)."""
    spans: dict[tuple[str, str | None, int], AlarmSpan] = field(default_factory=dict)


class LifeMoments:
    """What the stream says of the agents whose page was opened; a later look reads what is new."""

    def __init__(self) -> None:
        self._epoch = ""
        self._of: dict[str, StreamLife] = {}

    async def look(self, bus: Bus, agent: str) -> StreamLife:
        """As of now. Raises BusError."""
        stream = await bus.state()
        if stream.epoch != self._epoch:
            self._epoch = stream.epoch
            self._of.clear()
        known = self._of.setdefault(agent, StreamLife())
        while len(self._of) > MOST_AGENTS:
            del self._of[next(iter(self._of))]
        after, known.read = known.read, stream.last
        async for delivery in bus.read([subject_filter(kind, agent) for kind in READ], after=after):
            known.read = max(known.read, delivery.seq)
            try:
                take(known, decode(delivery.data))
            except ContractViolationError:  # a consumer's dead letter says so
                continue
        return known


def take(life: StreamLife, event: Event) -> None:
    """Add an event to what is known."""
    match event:
        case PolicySet(policy=policy, time=time) if policy is not None and policy == life.policy:
            life.moments.append((time, "start", "started again"))
        case PolicySet(policy=policy, time=time):
            life.turns = life.turns + 1 if policy is not None and policy == life.earlier else 0
            kinds = [kind for _, kind, _ in life.moments]
            if life.turns >= TURNS and "policy" in kinds:
                newest = len(kinds) - 1 - kinds[::-1].index("policy")
                words = f"two policies by turns, {life.turns} changes"
                life.moments[newest] = (life.moments[newest][0], "policy", words)
            elif life.policy is not None:
                words = " ".join(filter(None, (event.mind, event.model)))
                life.moments.append((time, "policy", f"another policy: {safe_text(words, one_line=True)[:60]}"))
            life.earlier, life.policy = life.policy, policy
        case AgentPaused(time=time):
            life.paused = life.paused or time
            life.moments.append((time, "pause", "paused"))
        case AgentResumed(time=time):
            life.paused = None
        case AlarmRaised(alarm=alarm, component=component, active=active, begun=begun, cycle=cycle):
            first = begun if begun is not None else cycle or 0
            key = (alarm, component, first)
            span = life.spans.setdefault(key, AlarmSpan(alarm_name(alarm), first, None))
            span.last = None if active else max(first, cycle or first)
    del life.moments[:-MOST_KEPT]
    while len(life.spans) > MOST_KEPT:
        del life.spans[next(iter(life.spans))]


def moments(figures: LifeFigures, stream: StreamLife | None) -> list[Moment]:
    """Every line of the curve, oldest first; those of the stream only where it is known."""
    sets = pairwise(figures.weight_sets)
    timed = [(one.time, "weights", weights_words(before, one)) for before, one in sets]
    timed += [(one.time, "generation", _generation(one)) for one in figures.adapters]
    timed += stream.moments if stream is not None else []
    found = [Moment(kind, cycle_at(figures, time), words) for time, kind, words in timed]
    return sorted([*found, *_quiet(figures)], key=lambda one: one.cycle)[-MOST_KEPT:]


def weights_words(before: WeightsSet, now: WeightsSet) -> str:
    """What a weight set changed, in a few words."""
    was = {part.component: part for part in before.parts}
    new = {part.component: part for part in now.parts}
    added, gone = len(new.keys() - was.keys()), len(was.keys() - new.keys())
    numbers = ((added, "added"), (gone, "gone"))
    counts = [f"{count} {'rule' if count == 1 else 'rules'} {verb}" for count, verb in numbers if count]
    if any(was[name].weight != part.weight for name, part in new.items() if name in was):
        counts.append("weights changed")
    return ", ".join(counts) or "another weight set"


def _generation(event: Event) -> str:
    if isinstance(event, AdapterRolledBack):
        return f"back to generation {event.generation}"
    return f"generation {event.generation} acts" if isinstance(event, AdapterPromoted) else ""


def cycle_at(figures: LifeFigures, time: datetime) -> int:
    """About the first cycle after a time: exact to a bucket of the curve."""
    known = _timed(figures)
    if not known:
        return 0
    at = bisect_right([begun for begun, _ in known], time.astimezone(UTC)) - 1
    if at < 0:
        return known[0][1]
    begun, cycle = known[at]
    if at + 1 == len(known):
        return cycle + figures.buckets[-1].cycles
    span = (known[at + 1][0] - begun).total_seconds()
    share = (time - begun).total_seconds() / span if span > 0.0 else 0.0
    return cycle + round(share * (known[at + 1][1] - cycle))


def _timed(figures: LifeFigures) -> list[tuple[datetime, int]]:
    """(when the first act of a bucket was done, its first cycle), oldest first."""
    both = zip(figures.begun, figures.buckets, strict=True)
    return [(begun, bucket.first) for begun, bucket in both if begun is not None]


def _quiet(figures: LifeFigures) -> list[Moment]:
    """Where the agent did not act for long beside the usual time of a bucket: it was stopped, or waited."""
    steps = [(later - begun, cycle) for (begun, _), (later, cycle) in pairwise(_timed(figures))]
    if len(steps) < 3:
        return []
    usual = sorted(step for step, _ in steps)[len(steps) // 2]
    least = max(QUIET, QUIET_TIMES * usual)
    return [Moment("quiet", cycle, f"no act for {_long(step)}") for step, cycle in steps if step > least]


def _long(time: timedelta) -> str:
    minutes = time.total_seconds() / 60
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"


def spans(stream: StreamLife, upto: int) -> dict[str, Sequence[tuple[int, int]]]:
    """Plain name of each alarm -> the cycles from and to between which it was on, oldest first."""
    found: dict[str, list[tuple[int, int]]] = {}
    for span in sorted(stream.spans.values(), key=lambda one: one.first):
        found.setdefault(span.name, []).append((span.first, span.last if span.last is not None else upto))
    return dict(found)

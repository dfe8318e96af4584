"""Latency of each consumer by the stream's clock: from the storing of an event to the storing of what follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from conch.bus import Bus, Delivery
from conch.text import safe_text
from conch_schemas import (
    ActionTaken,
    AlarmRaised,
    Event,
    ExperienceRecorded,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    event_type,
    subject_filter,
)

BACK: Final = 2000
"""Stream sequences that are read back at first, or after a long time without a request."""
RATE_SECONDS: Final = 60.0
"""Time that the rate of events is taken over."""
MOST_CAUSES: Final = 4096
"""Events with a remembered time."""
NEWEST: Final = 300
"""Latencies of one consumer that the figures are over."""
MOST_CONSUMERS: Final = 256
"""Consumers that are tracked: names of scorers are unbounded."""

_BY: Final[dict[type[Event], str]] = {
    NeedsChanged: "needs",
    NoveltyMeasured: "curiosity",
    MarkWitnessed: "witness",
    ExperienceRecorded: "store",
    AlarmRaised: "watch",
}
"""The consumer that publishes each type of event."""
_KINDS: Final[tuple[type[Event], ...]] = (ActionTaken, RewardAssigned, *_BY)
_FILTERS: Final = [subject_filter(kind) for kind in _KINDS]
_NAMES: Final = {event_type(kind): name for kind, name in _BY.items()}
_SCORES: Final = event_type(RewardAssigned)


class _StampedData(msgspec.Struct):
    scorer: str = ""
    revision: int = 1


class _TimedEvent(msgspec.Struct):
    """The fields of an event that are read here."""

    id: str
    type: str
    causationid: str | None = None
    data: _StampedData = msgspec.field(default_factory=_StampedData)


_fact = msgspec.json.Decoder(_TimedEvent).decode


@dataclass(frozen=True)
class ConsumerLatency:
    """The latencies of one consumer, in milliseconds."""

    count: int
    p50: float
    p95: float


class LatencyTracker:
    """The newest latencies of every consumer; asked again, only what is new is read."""

    def __init__(self) -> None:
        self._epoch = ""
        self._last = 0
        self._stored: dict[str, float] = {}
        """Id of a fact -> when the stream stored it, seconds since the epoch; the oldest first."""
        self._took: dict[str, deque[float]] = {}
        self._places: deque[tuple[float, int]] = deque(maxlen=MOST_CAUSES)
        """(when the stream stored it, its sequence) of what was read."""

    async def look(self, bus: Bus) -> dict[str, ConsumerLatency]:
        """The latencies by consumer, for a scorer by its name. Raises BusError."""
        stream = await bus.state()
        if stream.epoch != self._epoch:
            self._epoch, self._last = stream.epoch, 0
            self._stored.clear()
            self._took.clear()
            self._places.clear()
        after = max(self._last, stream.last - BACK)
        async for delivery in bus.read(_FILTERS, after=after):
            self.take(delivery)
        self._last = max(self._last, stream.last)
        return {name: _latency(took) for name, took in self._took.items()}

    def rate(self, now: float) -> float:
        """Events of all kinds per second that the stream has stored in the last minute up to `now`, seconds since the
        epoch; as far back as was read."""
        while self._places and now - self._places[0][0] > RATE_SECONDS:
            self._places.popleft()
        if not self._places:
            return 0.0
        begun, first = self._places[0]
        return (self._last - first + 1) / max(1.0, now - begun)

    def take(self, delivery: Delivery) -> None:
        """The next fact of the stream; what cannot be read is passed over."""
        try:
            fact = _fact(delivery.data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        self._stored[fact.id] = delivery.time
        self._places.append((delivery.time, delivery.seq))
        while len(self._stored) > MOST_CAUSES:
            del self._stored[next(iter(self._stored))]
        name = safe_text(fact.data.scorer[:100], one_line=True) if fact.type == _SCORES else _NAMES.get(fact.type)
        begun = self._stored.get(fact.causationid or "")
        # A later revision waited for a late score, not for the store.
        if name is None or begun is None or fact.data.revision > 1:
            return
        if name in self._took or len(self._took) < MOST_CONSUMERS:
            self._took.setdefault(name, deque(maxlen=NEWEST)).append(max(0.0, delivery.time - begun))


def _latency(took: Iterable[float]) -> ConsumerLatency:
    ordered = sorted(took)
    at = [ordered[max(0, -(-percent * len(ordered) // 100) - 1)] * 1000.0 for percent in (50, 95)]
    return ConsumerLatency(len(ordered), at[0], at[1])

"""Rate-limits sensors' readings into events `sense.measured`: the newest, at most one per sense in `every` seconds."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid5

import aiomqtt

from conch.config.model import SenseSettings
from conch.log import get_logger
from conch_schemas import SenseMeasured, SenseValue, source_of
from conch_services.mqtt.parse import NoReadingError, read

log = get_logger(__name__)

QUIET_SECONDS = 60.0
"""From one log line about a sense's bad payloads to the next."""
TOPICS = 256
"""Topics of one sense with a known last payload; beyond, the one silent for longest is forgotten."""
TOPIC_SHOWN = 1000
"""Characters of a topic that a fact carries."""
_OWN = aiomqtt.Wildcard("conch/+/sense/measured")
"""Topics to which the bridge publishes readings itself: read as a sensor, it would loop for ever."""


@dataclass(frozen=True)
class Measurement:
    """A reading of a sensor that is to become an event."""

    sense: str
    value: SenseValue
    topic: str
    received: datetime
    kept: bool
    key: str
    """An idempotency key: the same for the same message, as far as that can be known."""


@dataclass
class _SensorState:
    """The waiting reading, rate limits and last payloads of one sense."""

    settings: SenseSettings
    filter: aiomqtt.Wildcard
    waiting: Measurement | None = None
    free: float = 0.0
    """When the next event may be published, by the clock."""
    payloads: dict[str, bytes] = field(default_factory=dict)
    """Topic -> digest of the last payload."""
    refused: int = 0
    """Payloads since the last log line."""
    loud: float = 0.0
    """When the next log line may be written, by the clock."""


class SensorInbox:
    """Incoming readings that wait to be published: at most one per sense."""

    def __init__(self, settings: Mapping[str, SenseSettings], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._senses = {name: _SensorState(sense, aiomqtt.Wildcard(sense.topic)) for name, sense in settings.items()}
        self.refused: Counter[tuple[str, str]] = Counter()
        """Payloads without a reading, by sense and reason."""

    @property
    def filters(self) -> tuple[str, ...]:
        """The topic filters to subscribe to."""
        return tuple(dict.fromkeys(sense.settings.topic for sense in self._senses.values()))

    def hear(self, topic: str, payload: bytes, kept: bool, received: datetime) -> bool:
        """Take a message; returns whether something new waits now. Never raises for a message's content."""
        try:
            named = aiomqtt.Topic(topic)
        except ValueError:  # no broker should let it through
            return False
        if named.matches(_OWN):
            return False
        heard = [self._take(name, one, topic, payload, kept, received) for name, one in self._matching(named)]
        return any(heard)

    def _matching(self, topic: aiomqtt.Topic) -> list[tuple[str, _SensorState]]:
        return [(name, one) for name, one in self._senses.items() if topic.matches(one.filter)]

    def _take(self, name: str, one: _SensorState, topic: str, payload: bytes, kept: bool, received: datetime) -> bool:
        digest = hashlib.sha256(payload).digest()
        again = one.payloads.pop(topic, None) == digest
        one.payloads[topic] = digest
        if len(one.payloads) > TOPICS:
            del one.payloads[next(iter(one.payloads))]
        if again and (kept or self._clock() < one.free):
            return False  # a broker hands over what it keeps with every connection; a sender repeats what may be lost
        try:
            reading = read(payload, one.settings.path)
        except NoReadingError as error:
            self._refuse(name, one, topic, error)
            return False
        key = reading.id or (f"kept {digest.hex()}" if kept else received.isoformat())
        one.waiting = Measurement(name, reading.value, topic, received, kept, key)
        return True

    def _refuse(self, name: str, one: _SensorState, topic: str, error: NoReadingError) -> None:
        self.refused[name, error.reason] += 1
        one.refused += 1
        if (now := self._clock()) >= one.loud:
            why, payloads = str(error), one.refused
            log.warning("sense.refused", sense=name, topic=topic, reason=error.reason, why=why, payloads=payloads)
            one.refused, one.loud = 0, now + QUIET_SECONDS

    def due(self) -> list[Measurement]:
        """Remove and return the readings that may be published now."""
        now, found = self._clock(), []
        for one in self._senses.values():
            if one.waiting is not None and now >= one.free:
                found.append(one.waiting)
                one.waiting, one.free = None, now + one.settings.every
        return found

    @property
    def next(self) -> float | None:
        """Seconds until something is due; None: nothing waits."""
        times = [one.free for one in self._senses.values() if one.waiting is not None]
        return max(0.0, min(times) - self._clock()) if times else None


def fact(measurement: Measurement, settings: SenseSettings, agent: str, agentuid: str) -> SenseMeasured:
    """The fact of a measurement, for one agent. Its id follows from the agent, the sense, the topic and the key."""
    key = f"{SenseMeasured.TYPE}/{measurement.sense}/{measurement.topic}/{measurement.key}"
    return SenseMeasured(
        id=str(uuid5(UUID(agentuid), key)),
        source=source_of(agent, agentuid),
        agent=agent,
        sense=measurement.sense,
        value=measurement.value,
        unit=settings.unit if isinstance(measurement.value, float) else "",
        topic=measurement.topic[:TOPIC_SHOWN],
        received=measurement.received,
        kept=measurement.kept,
    )

"""When alarms began and ended, of all agents, from the stream."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final, NamedTuple

from conch.bus import Bus
from conch.rewards.watch import Severity, alarm_name, severity
from conch.text import safe_text
from conch_schemas import AlarmRaised, ContractViolationError, decode, subject_filter

MOST_KEPT: Final = 400
"""Beginnings and ends that are kept, the newest."""


class AlarmMoment(NamedTuple):
    """An alarm began, or ended."""

    time: datetime
    agent: str
    name: str
    severity: Severity
    component: str | None
    begins: bool
    begun: int | None
    """The cycle that it began with."""
    cycle: int | None
    """The cycle at which this was found."""
    what: str


class AlarmHistory:
    """The newest beginnings and ends; a later look reads what is new."""

    def __init__(self) -> None:
        self._epoch, self._read = "", 0
        self._kept: deque[AlarmMoment] = deque(maxlen=MOST_KEPT)

    async def look(self, bus: Bus) -> list[AlarmMoment]:
        """As of now, the newest first. One look at a time. Raises BusError."""
        stream = await bus.state()
        if stream.epoch != self._epoch:
            self._epoch, self._read = stream.epoch, 0
            self._kept.clear()
        after, self._read = self._read, stream.last
        async for delivery in bus.read([subject_filter(AlarmRaised)], after=after):
            self._read = max(self._read, delivery.seq)
            try:
                event = decode(delivery.data)
            except ContractViolationError:  # a consumer's dead letter says so
                continue
            if isinstance(event, AlarmRaised):
                self._kept.append(_moment(event))
        return list(reversed(self._kept))


def _moment(event: AlarmRaised) -> AlarmMoment:
    return AlarmMoment(
        time=event.time,
        agent=event.agent,
        name=alarm_name(event.alarm),
        severity=severity(event.alarm),
        component=event.component,
        begins=event.active,
        begun=event.begun if event.begun is not None else event.cycle,
        cycle=event.cycle,
        what=safe_text(event.what, one_line=True),
    )

"""When an agent's cycles begin: at a fixed interval, with the agents of a process spread over it."""

from __future__ import annotations

import time
from collections.abc import Callable

STALLED = 2.0
"""Length of a cycle, in intervals, after which an agent among several goes back to its own place in the interval: what
delayed it (the bus) has delayed all of them, and they would stay in step."""


class Schedule:
    """The timing of one agent: a cycle every `interval` seconds, the first one `place` of an interval after the start.

    `place`: 0..1, different for each agent; None: the agent is alone.
    """

    def __init__(self, interval: float, place: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = interval, clock
        self._alone = place is None
        self._offset = interval * (place or 0.0)
        self._origin = self._began = clock()

    def first(self) -> float:
        """Seconds from the start to the first cycle."""
        return self._offset

    def begin(self) -> None:
        """Record that a cycle begins now."""
        self._began = self._clock()

    def rest(self) -> float:
        """Seconds until the next cycle; at most 0 where it is due."""
        now = self._clock()
        took = now - self._began
        if self._alone or not self._interval or took < STALLED * self._interval:
            return self._interval - took
        return (self._origin + self._offset - now) % self._interval

"""How long a process has not responded, and when to report it."""

from __future__ import annotations

import psutil

LOOK_SECONDS = 1.0
"""Seconds between two checks."""


class Unresponsiveness:
    """The time since the last response, added up over regular checks.

    Reported at the limit, and again whenever it has doubled.
    """

    def __init__(self, limit: float) -> None:
        """`limit`: seconds of silence that are not reported."""
        self.seconds = 0.0
        self._next = limit

    def look(self, elapsed: float) -> bool:
        """Add the seconds since the last check. Returns whether the silence is to be reported now.

        A check that comes late counts little: the checking process was then stopped, or had no processor either.
        """
        self.seconds += min(elapsed, 2 * LOOK_SECONDS)
        if self.seconds < self._next:
            return False
        self._next = 2 * self.seconds
        return True


def is_stopped(pid: int | None) -> bool:
    """Whether a process was stopped by a signal or a debugger."""
    try:
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False

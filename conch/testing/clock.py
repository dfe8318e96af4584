"""`FakeClock`: a clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class FakeClock:
    """A clock that only moves when a test moves it. Called, it gives seconds, as `time.monotonic` and `time.time` do.

    Pass it wherever a `Callable[[], float]` is taken for a clock, in Conch (the schedule of cycles, sensors, a judge's
    cache) or in a consumer of your own; `now` is the same moment as a datetime.

    ```python
    from conch.testing import FakeClock

    clock = FakeClock()
    began = clock()
    clock.advance(90)
    assert clock() - began == 90
    assert clock.now.isoformat() == "2026-01-01T12:01:30+00:00"
    ```
    """

    def __init__(self, start: datetime = NOON) -> None:
        """`start`: an aware datetime."""
        self.now = start
        """The moment that it shows."""

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self.now.timestamp()

    def advance(self, seconds: float) -> None:
        """Move it forwards. Raises ValueError for less than 0: a monotonic clock never goes back."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back by {-seconds:g} s")
        self.now += timedelta(seconds=seconds)

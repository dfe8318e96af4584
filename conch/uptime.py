"""A monotonic clock that goes on while the machine is suspended, for deadlines between processes."""

from __future__ import annotations

import time


def uptime() -> float:
    """Seconds since the machine started, including those while it was suspended, which `time.monotonic` leaves out on
    Linux. On other systems than Linux: `time.monotonic`."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)

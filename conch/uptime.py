"""A monotonic clock for leases between machines: it goes on while this machine sleeps."""

from __future__ import annotations

import time


def uptime() -> float:
    """Seconds since the machine was started, with those in which it was suspended, which `time.monotonic` leaves out on
    Linux. Elsewhere than on Linux: `time.monotonic`."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)

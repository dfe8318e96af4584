"""Whether this worker still owns the partitions that it handles."""

from __future__ import annotations

import asyncio
import math
import time

from conch.consumer.group.position import ConsumerPosition
from conch.errors import FencedError

SURE_SECONDS = 5.0
"""How long a place is taken for ours without a look: as long as others wait before they take it."""


class OwnershipCheck:
    """Looks at the stored position when the last look lies too far back: before anything is published.

    Of a runtime that does not run it never looks.
    """

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer
        self._sure = math.inf
        """When the place was last known to be ours, by `uptime`; of one that does not run, always."""
        self._looking = asyncio.Lock()
        """In turn: what waits for a look first is published first."""

    def begin(self, position: ConsumerPosition) -> None:
        """Check this position, which was just taken."""
        self._position, self._sure = position, uptime()

    def confirm(self, at: float) -> None:
        """The position was known to be ours at this moment of `uptime`."""
        self._sure = at

    async def ensure(self) -> None:
        """That its place was not taken while this process stood still: two would say the same. Raises FencedError."""
        async with self._looking:
            now = uptime()  # not once it is answered: this process may stand still before it reads the answer
            if now - self._sure > SURE_SECONDS:
                if not await self._position.is_held():
                    raise FencedError(f"another copy of {self._consumer} has taken over from this one; this one stops")
                self._sure = now


def uptime() -> float:
    """Seconds since the machine started, including those while it was suspended, which `time.monotonic` leaves out on
    Linux: for deadlines between processes. On other systems than Linux: `time.monotonic`."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)

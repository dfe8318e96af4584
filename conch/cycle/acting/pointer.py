"""The pointer of an agent's lineage, as the agent reads it: once a cycle, and the last known one while that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from conch.bus import Bus, PolicyRecord
from conch.errors import ConchError
from conch.log import get_logger
from conch.training import read_pointer

log = get_logger(__name__)

POINTER_SECONDS: Final = 1.0
"""Longest wait for the pointer; then the last known one holds."""
FRESH_SECONDS: Final = 0.5
"""Age at which a pointer is read again before a decision: a thought may have taken minutes since the cycle began."""


class PointerReader:
    """Reads the pointer of one agent."""

    def __init__(self, bus: Bus, agent: str, agentuid: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._bus, self._agent, self.agentuid, self._clock = bus, agent, agentuid, clock
        self._read_for = -1
        """The cycle that the pointer was read for last."""
        self._read_at = 0.0
        self.last = PolicyRecord()
        """As it was read last."""

    async def read(self, cycle: int) -> PolicyRecord:
        """The pointer, read anew in another cycle than the last time, and after FRESH_SECONDS. One that is of another
        agent of the name, or cannot be read, changes nothing."""
        now = self._clock()
        is_fresh = cycle == self._read_for and now - self._read_at < FRESH_SECONDS
        if is_fresh or not self._bus.connected:
            return self.last
        try:
            async with asyncio.timeout(POINTER_SECONDS):
                found, _ = await read_pointer(self._bus, self._agent)
        except (TimeoutError, ConchError) as error:
            log.warning("adapter.pointer_not_read", error=str(error) or f"no reply within {POINTER_SECONDS:g} s")
            return self.last
        self._read_for, self._read_at = cycle, now
        self.last = found if found.agentuid in ("", self.agentuid) else PolicyRecord()
        return self.last

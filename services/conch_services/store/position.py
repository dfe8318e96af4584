"""The report of the store's position on the bus. The store itself goes by the positions beside its rows."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from conch.bus import Bus
from conch.consumer.group import report_position
from conch.experience import FACTS, ExperienceStore
from conch_services.store.thread import StoreThread


class PositionReport:
    """Reports how far the store has come: of all its workers, where several share it."""

    def __init__(self, name: str, thread: StoreThread, *, is_shared: bool) -> None:
        self._name, self._in_thread, self._is_shared = name, thread.run, is_shared
        self.told = 0
        """The position of this worker that was reported last."""
        self.passed = 0
        """Up to this sequence other workers' events were passed over, which the store does not know yet; 0: none."""
        self._told_at = 0.0

    def age(self) -> float:
        """Seconds since the last report."""
        return time.monotonic() - self._told_at

    async def tell(self, bus: Bus, store: ExperienceStore, reached: int) -> None:
        """Report that everything up to `reached` is joined."""
        self.told, self._told_at = reached, time.monotonic()
        if self.passed:
            passed, self.passed = self.passed, 0
            await self._in_thread(store.apply, (), upto=passed, now=datetime.now(UTC))
        of_all = await self._in_thread(store.position) if self._is_shared else reached
        await report_position(bus, self._name, FACTS, min(reached, of_all))

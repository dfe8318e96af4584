"""`DashboardContext`: settings, history and bus, which every page is given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from conch.bus import Bus, SharedSubscription
from conch.config import Settings
from conch.errors import BusUnreachableError, NoStoreError, StoreError
from conch.experience import ExperienceReader, StoreLocation, store_location
from conch.home import Home
from conch.tasks import OwnedTasks
from conch_services.dashboard.asking import AnswerCache
from conch_services.dashboard.stream.hub import ALONE, LIVE, LiveHub

T = TypeVar("T")

READERS = 2
"""Threads that read the store side by side."""
FRESH_SECONDS = 0.5
"""Seconds for which the agents are not looked up again while no fact comes: a page asks for them three times, and of
1,000 agents each look takes 7 ms of processor time and a thread that others wait for."""


@dataclass
class DashboardContext:
    """The dashboard's access to one home: made with the app, given to every request."""

    settings: Settings
    home: Home
    hub: LiveHub = field(default_factory=LiveHub)
    shared_events: SharedSubscription | None = None
    """The bus, while there is one."""
    tasks: OwnedTasks = field(default_factory=OwnedTasks)
    """What outlasts the request that began it, since others wait for it, too."""

    turns: int = 0
    """Turns of conversations that are open."""

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="conch.history")
        self._mine = threading.local()
        self._open: list[ExperienceReader] = []
        self._agents = AnswerCache[tuple[str, ...]](FRESH_SECONDS, self.tasks)

    @property
    def bus(self) -> Bus:
        """The bus. Raises BusUnreachableError while there is none."""
        if self.shared_events is None or not self.shared_events.bus.connected:
            away = "no run is in progress." if self.hub.state == ALONE else f"the bus is away: {self.hub.state}"
            raise BusUnreachableError(away)
        return self.shared_events.bus

    @property
    def store(self) -> StoreLocation:
        """The store's file or database."""
        return store_location(self.settings.store.url, self.home.path)

    async def agents(self) -> tuple[str, ...]:
        """Names of the agents that have acted, or act in a run of the home, sorted. Raises as `read`."""
        return await self._agents.get(self.hub.last, self._acting)

    async def _acting(self) -> tuple[str, ...]:
        run = await asyncio.to_thread(self.home.running) if self.hub.state == LIVE else None
        acting = run.agents if run is not None else ()
        try:
            acted = await self.read(lambda reader: reader.agents())
        except NoStoreError:
            if not acting:
                raise
            acted = ()
        return tuple(sorted({*acted, *acting}))

    async def read(self, work: Callable[[ExperienceReader], T]) -> T:
        """The result of `work` on the history, in a thread.

        Raises NoStoreError where there is none yet, StoreError where it is locked or damaged.
        """
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    def _read(self, work: Callable[[ExperienceReader], T]) -> T:
        reader = getattr(self._mine, "reader", None)
        if reader is None:
            try:
                reader = self._mine.reader = self.store.reader()
            except NoStoreError:
                raise NoStoreError(f"there are no experiences at {self.store} yet: conch run makes some") from None
            self._open.append(reader)
        try:
            return work(reader)
        except StoreError:  # another file may be there by the next time
            self._mine.reader = None
            self._open.remove(reader)
            reader.close()
            raise

    def close(self) -> None:
        """Cancel the tasks, let go of the store. A second call does nothing."""
        self.tasks.cancel()
        self._pool.shutdown()
        for reader in self._open:
            reader.close()
        self._open.clear()

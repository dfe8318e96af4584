"""The partitions of the agents that a store worker owns, where several workers share a database.

Which partitions fall to a worker follows from the workers that are alive; a partition is owned by a lock of the session
that writes, so that a worker which was taken for dead cannot write beside its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from conch.bus import PARTITIONS
from conch.experience import ExperienceStore
from conch.log import get_logger
from conch.tasks import race, ungrouped
from conch_services.store.thread import StoreThread

if TYPE_CHECKING:
    from conch.consumer.group import Membership

log = get_logger(__name__)

HANDOVER_SECONDS = 0.25
"""Seconds between two looks whether another worker has let go of a partition."""
QUIET_SECONDS = 10.0
"""Longest time without a statement: the server ends the session of a worker that is silent for 60 s."""


class WorkerPartitions:
    """What falls to this worker, and what of that it owns. Without `members` it has the store alone, and owns all."""

    def __init__(self, name: str, members: Membership | None, thread: StoreThread) -> None:
        """`name`: of the consumer whose workers share the agents."""
        self._name, self._members, self._thread = name, members, thread
        self.owned: frozenset[int] = frozenset()
        self.is_settled = False
        """Whether it owns all that falls to it."""

    @asynccontextmanager
    async def takes_part(self) -> AsyncIterator[None]:
        """While entered, partitions fall to this worker."""
        if self._members is None:
            yield
            return
        self._members.consumers.add(self._name)
        await self._members.show()
        try:
            yield
        finally:
            self._members.consumers.discard(self._name)

    @asynccontextmanager
    async def held(self, store: ExperienceStore, stop: asyncio.Event) -> AsyncIterator[asyncio.Event]:
        """While entered, the worker owns what falls to it and is free. The event is set at `stop`, and when it is to
        own something else. Raises StoreError, also in place of the body."""
        members = self._members
        if members is None:
            self.owned, self.is_settled = await self._thread.run(store.own, range(PARTITIONS)), True
            yield stop
            return
        members.changed.clear()
        wanted, over = self._wanted(), asyncio.Event()
        self.owned = await self._thread.run(store.own, wanted)
        self.is_settled = self.owned == wanted
        log.info("store.partitions", owned=sorted(self.owned), why=self._sentence(wanted))
        try:
            with ungrouped():
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(
                        self._watch(members, store, wanted, stop, over), name="conch.store.share"
                    )
                    yield over
                    watching.cancel()
        finally:
            self.is_settled = False

    def retry_subjects(self) -> list[str]:
        """Where it is asked to take a letter again: under the numbers of its partitions, alone under any name."""
        names = [">"] if self._members is None else [f"{number}.retry" for number in sorted(self.owned)]
        return [f"conch.ctl._consumer.{self._name}.{name}" for name in names]

    async def _watch(
        self,
        members: Membership,
        store: ExperienceStore,
        wanted: frozenset[int],
        stop: asyncio.Event,
        over: asyncio.Event,
    ) -> None:
        waits_for = wanted - self.owned
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANDOVER_SECONDS if waits_for else QUIET_SECONDS):
                    await race({"conch.store.stop": stop.wait(), "conch.store.changed": members.changed.wait()})
            members.changed.clear()
            if self._wanted() != wanted:
                break
            if await self._thread.run(store.is_free, waits_for):
                break
        over.set()

    def _wanted(self) -> frozenset[int]:
        assert self._members is not None
        return frozenset(self._members.share(self._name))

    def _sentence(self, wanted: frozenset[int]) -> str:
        numbers = ", ".join(map(str, sorted(self.owned))) or "none"
        sentence = f"this worker stores the agents of {len(self.owned)} of {PARTITIONS} partitions: {numbers}"
        waits_for = ", ".join(map(str, sorted(wanted - self.owned)))
        return f"{sentence}; another worker has still to let go of {waits_for}" if waits_for else sentence

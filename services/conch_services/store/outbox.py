"""The store's outbox: publishes what a transaction recorded, and tells the store what the stream has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from conch.bus import Bus, OutgoingMessage
from conch.experience import ExperienceStore
from conch.tasks import OwnedTasks
from conch_schemas import ExperienceRecorded, encode, subject_filter, subject_of
from conch_services.store.thread import StoreThread


class Outbox:
    """Publishes experiences in the order of their transactions, while the next transaction is written."""

    def __init__(self, thread: StoreThread) -> None:
        self._in_thread = thread.run
        self.published: list[str] = []
        """Ids that the stream has and that the store does not know to be published."""
        self.publishing: asyncio.Task[None] | None = None
        """Publishes the experiences of the last transaction."""
        self.handled = 0
        """Everything up to this sequence is joined, and what was recorded is published."""

    def open(self, bus: Bus, store: ExperienceStore) -> None:
        """Use this bus and this store from now on; the store's outbox has what was not settled in another one."""
        self._bus, self._store = bus, store
        self._tasks = OwnedTasks()
        self.published, self.publishing = [], None

    async def publish_next(self, recorded: Sequence[ExperienceRecorded], upto: int | None = None) -> None:
        """Publish these behind what is being published, and do not wait for it; up to `upto` all is handled then.

        Waits for what is being published: so at most two transactions are ahead of the stream. Raises what publishing
        it raised.
        """
        if self.publishing is not None:
            await self.publishing
            self.publishing = None
        if recorded:
            self.publishing = self._tasks.start(self.publish(recorded, upto), name="conch.store.say")
        elif upto is not None:
            self.handled = upto

    async def publish(self, recorded: Sequence[ExperienceRecorded], upto: int | None = None) -> None:
        """Publish these; up to `upto` all is handled then."""
        await self._bus.publish_many([OutgoingMessage(subject_of(one), encode(one), one.id) for one in recorded])
        self.published += [experience.id for experience in recorded]
        if upto is not None:
            self.handled = upto

    async def close(self) -> None:
        """Give up what is being published: the next run publishes it. A second call does nothing."""
        await self._tasks.close()

    async def settle(self) -> None:
        """Tell the store what was published since the last time."""
        if self.published:
            published, self.published = self.published, []
            await self._in_thread(self._store.mark_published, published)

    async def publish_the_rest(self) -> None:
        """Publish what the run before recorded and did not publish, except what stands on the stream already."""
        while unpublished := await self._in_thread(self._store.unpublished):
            there = await self._on_stream({experience.id for experience in unpublished})
            await self.publish([experience for experience in unpublished if experience.id not in there])
            self.published += there
            await self.settle()

    async def _on_stream(self, ids: set[str]) -> list[str]:
        """Which of these stand on the stream, looked for behind the place of the last settled one."""
        found = []
        async for delivery in self._bus.read([subject_filter(ExperienceRecorded)]):
            try:
                id = str(json.loads(delivery.data)["id"])
            except (ValueError, LookupError, TypeError, RecursionError):
                continue  # not an event: nobody published it here
            if id in ids:
                found.append(id)
        return found

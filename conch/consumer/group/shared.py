"""A consumer whose agents are shared among workers: each partition is handled by one worker at a time.

An agent always belongs to the same partition. A partition is assigned to one of the workers that are alive, by their
names alone. A worker that gives a partition up first finishes its events in hand and stores its position, so that the
order of an agent's events holds. A worker that takes over from a dead one waits until the heartbeat has run out, and
fences the old owner in case it is still alive.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import fields

from conch.bus import SharedSubscription
from conch.consumer.group.membership import Membership
from conch.consumer.group.position import ConsumerPosition, free, take_position
from conch.consumer.runtime.breaker import ConsumerBreaker
from conch.consumer.runtime.loop import ConsumerRuntime
from conch.consumer.runtime.output import ConsumerCounts
from conch.consumer.spec import ConsumerSpec
from conch.errors import FencedError
from conch.log import get_logger
from conch.tasks import background, race, ungrouped

log = get_logger(__name__)

HANDOVER_SECONDS = 0.1
"""Seconds between two checks whether a partition's former owner has released it."""


class SharedConsumer:
    """See `conch.consumer.services.Service`. Handles the partitions that fall to this worker."""

    def __init__(self, spec: ConsumerSpec, members: Membership, breaker: ConsumerBreaker | None = None) -> None:
        self.spec, self.name = spec, spec.name
        self._breaker = breaker
        self._members = members
        self._ended = ConsumerCounts()
        """The counts of runtimes that have ended."""
        self.runtime: ConsumerRuntime | None = None
        """The runtime of the partitions that this worker owns; None while it owns none."""
        self._settled = False
        """Whether it holds all that falls to it."""

    @property
    def tally(self) -> ConsumerCounts:
        """The counts of all that it handled."""
        return _sum(self._ended, self.runtime.tally) if self.runtime is not None else self._ended

    @property
    def handled(self) -> int:
        """Everything up to here that falls to this worker is handled, and what followed from it is published."""
        if not self._settled:
            return -1
        return self.runtime.handled if self.runtime is not None else self._shared_events.seq

    @property
    def busy(self) -> bool:
        """Never: nothing here waits for its time."""
        return False

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Handle events until `stop`; then events in hand are finished, the position is stored, the partitions are
        released.

        Raises ContractError for a position or state that cannot be read, BusError when the bus refuses for good.
        """
        self._shared_events = shared_events
        self._members.consumers.add(self.name)
        await self._members.show()
        try:
            while not stop.is_set():
                # In a task of its own: a task group that fails as it is cancelled raises the failure alone.
                async with background(self._hold(stop), name=f"conch.{self.name}.hold") as holding:
                    await asyncio.wait([holding])
                await holding
        finally:
            self._members.consumers.discard(self.name)
            if self.spec.close is not None:
                await self.spec.close()

    async def _hold(self, stop: asyncio.Event) -> None:
        """Handle what falls to this worker and is free, until that changes."""
        members, over = self._members, asyncio.Event()
        members.changed.clear()
        wanted = self._wanted()
        consumer_position = await take_position(
            self._shared_events.bus, self.spec, mine=wanted, worker=members.name, is_gone=members.is_gone
        )
        try:
            with ungrouped():
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(
                        self._watch(wanted, set(consumer_position.floors), stop, over), name="conch.share"
                    )
                    self._settled = set(consumer_position.floors) == wanted
                    await self._work(consumer_position, over)
                    watching.cancel()
        except FencedError as fenced:
            log.warning("consumer.fenced", consumer=self.name, why=str(fenced))
        finally:
            self._settled = False

    async def _work(self, consumer_position: ConsumerPosition, over: asyncio.Event) -> None:
        if not consumer_position.floors:
            await over.wait()
            return
        self.runtime = ConsumerRuntime(
            self._shared_events, self.spec, consumer_position=consumer_position, breaker=self._breaker
        )
        try:
            await self.runtime.run(over)
        finally:
            self._ended, self.runtime = self.tally, None

    async def _watch(self, wanted: set[int], held: set[int], stop: asyncio.Event, over: asyncio.Event) -> None:
        """Set `over` when this worker is to stop, other partitions fall to it, or one that it waits for is free."""
        members = self._members
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANDOVER_SECONDS if held != wanted else None):
                    await race({"conch.share.stop": stop.wait(), "conch.share.changed": members.changed.wait()})
            members.changed.clear()
            if self._wanted() != wanted:
                break
            waiting = wanted - held
            if waiting and await free(self._shared_events.bus, self.spec, waiting, members.name, members.is_gone):
                break
        over.set()

    def _wanted(self) -> set[int]:
        return self._members.share(self.name)


def _sum(one: ConsumerCounts, other: ConsumerCounts) -> ConsumerCounts:
    return ConsumerCounts(
        **{field.name: getattr(one, field.name) + getattr(other, field.name) for field in fields(ConsumerCounts)}
    )

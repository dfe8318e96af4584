"""The store service: reads every event of the cycle and its scores, publishes `experience.recorded`.

Many events share a transaction: what waits is taken, written with the stream position, then published; meanwhile the
next ones are written. What was written and not yet published when a crash came is in the outbox and is published at the
next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from typing import Any

from conch.bus import Bus, Delivery, ReceivedEvent, SharedSubscription, StreamSubscription, decoded
from conch.consumer import ConsumerSpec, ServiceContext
from conch.consumer.runtime import ConsumerCounts, answer_retry, dead_letter, publish_dead_letter
from conch.errors import ContractError
from conch.experience import FACTS, ExperienceStore, store_location
from conch.log import get_logger
from conch.processes import ConsumerNote
from conch.tasks import OwnedTasks
from conch_schemas import (
    ContractViolationError,
    Event,
    ExperienceRecorded,
    agent_of,
    subject_filter,
)
from conch_services.store.away import through_outages
from conch_services.store.gathering import CROWDED, LINGER_SECONDS, GatheredFacts
from conch_services.store.outbox import Outbox
from conch_services.store.partitions import WorkerPartitions
from conch_services.store.position import PositionReport
from conch_services.store.pruning import PruningSchedule
from conch_services.store.signing import CheckpointSigning
from conch_services.store.thread import StoreThread

log = get_logger(__name__)
Put = Callable[[list[tuple[int, Event]], int], tuple[ExperienceRecorded, ...]]
"""Writes events into the store, with the stream position up to which all is in it then."""

BATCH = 2000
"""Facts to a transaction, at most."""
SETTLE_SECONDS = 1.0
"""Seconds between two cleanups of the outbox, and between two reports of the position; after a crash at most this much
is published again, under the same ids."""

_CAUGHT_UP = [*map(subject_filter, FACTS), subject_filter(ExperienceRecorded)]
"""What a store that is behind reads."""
SPEC = ConsumerSpec("store", "1", FACTS, lambda _: None, emits=(ExperienceRecorded,))


class StoreService:
    """See `conch.consumer.services.Service`. Its position stands in the store, beside the rows."""

    name = "store"

    def __init__(self, context: ServiceContext) -> None:
        self._location = store_location(context.settings.store.url, context.home)
        self._report = context.report
        self._pruning = PruningSchedule(context.settings, context.home)
        self._signing = CheckpointSigning(context.home, self._note)
        self.tally = ConsumerCounts()
        self._waiting = 0
        self._due: datetime | None = None
        self._thread = StoreThread()
        members = context.members if self._location.is_shared else None
        self._partitions = WorkerPartitions(self.name, members, self._thread)
        self._outbox = Outbox(self._thread)
        self._position = PositionReport(self.name, self._thread, is_shared=self._location.is_shared)
        self._subscription: StreamSubscription | None = None
        self._is_level = asyncio.Event()
        """Set once the stream as of the start is joined: from then on, acts are recorded as they come."""

    @property
    def handled(self) -> int:
        """Everything up to this sequence that falls to this worker is joined, and what was recorded is said."""
        return self._reached if self._partitions.is_settled else -1

    @property
    def _reached(self) -> int:
        """The same, of what it owns."""
        if self._subscription is None or self._subscription.given > self._outbox.handled:
            return self._outbox.handled
        return self._subscription.seen

    @property
    def busy(self) -> bool:
        """Whether acts wait for their scores."""
        return self._waiting > 0

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Join events until `stop`; where the store's server goes away, from its position on once it is back. Raises
        StoreError when the store cannot be used."""
        async with self._partitions.takes_part():
            await through_outages(lambda: self._serve(shared_events, stop), stop, self._note)

    async def _serve(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        self._bus = bus = shared_events.bus
        self._store = await asyncio.to_thread(self._location.worker)
        try:
            await self._thread.run(self._store.set_epoch, (await bus.state()).epoch)
            while True:
                async with self._partitions.held(self._store, stop) as over:
                    await (self._hold(shared_events, over) if self._partitions.owned else over.wait())
                if stop.is_set():
                    return
        finally:
            await self._thread.run(self._store.close)

    async def _hold(self, shared_events: SharedSubscription, over: asyncio.Event) -> None:
        """Join the events of the agents that are owned, until `over`; then all that was recorded is published."""
        bus = shared_events.bus
        self._is_level.clear()
        self._position.passed = 0
        self._outbox.open(bus, self._store)
        await self._thread.run(self._signing.open, self._store)
        stream = await bus.state()
        await _set_back(self._store, self._thread, stream.last)
        await self._outbox.publish_the_rest()
        async with AsyncExitStack() as stack:
            for subject in self._partitions.retry_subjects():
                await stack.enter_async_context(bus.serve(subject, self._asked_to_retry))
            await self._catch_up(stream.last, over)
            after = self._store.applied()
            if self._outbox.publishing is None:
                self._outbox.handled = after
            async with shared_events.subscribe(FACTS, after=after) as self._subscription:
                self._is_level.set()
                await self._thread.run(self._look)
                await self._thread.run(self._pruning.step, self._store)
                log.info("store.started", after=after, waiting=self._waiting)
                await self._tell()
                try:
                    await self._take(self._subscription, over)
                finally:
                    await self._outbox.close()
                await self._outbox.settle()
                await self._tell()
                await self._thread.run(self._signing.end)
            self._subscription = None

    async def retry_alone(self, bus: Bus, seq: int) -> None:
        """Join the event of a dead letter, for a store that does not run. Raises what is wrong with it."""
        self._bus = bus
        self._store = await asyncio.to_thread(self._location.writer)
        self._outbox.open(bus, self._store)
        try:
            stream = await bus.state()
            await self._thread.run(self._store.set_epoch, stream.epoch)
            await self._catch_up(stream.last, asyncio.Event())
            await self._outbox.publish_next(())
            await self._retry(seq)
            await self._outbox.settle()
        finally:
            await self._thread.run(self._store.close)

    async def _asked_to_retry(self, _subject: str, data: bytes) -> bytes:
        await self._is_level.wait()
        return await answer_retry(self._retry, data)

    async def _retry(self, seq: int) -> None:
        delivery = await self._bus.at(seq)
        if delivery is None:
            raise ContractError(f"event {seq} is no longer on the stream")
        event = decoded(delivery.subject, delivery.data)
        await self._outbox.publish(await self._thread.run(self._applied, [(seq, event)], 0))

    async def _take(self, subscription: StreamSubscription, stop: asyncio.Event) -> None:
        getting: asyncio.Task[Sequence[ReceivedEvent]] | None = None
        gathered = GatheredFacts()  # those that are left at the end come again: the position does not pass them
        async with OwnedTasks() as tasks:
            stopped = tasks.start(stop.wait(), name="conch.store.stop")
            while not stop.is_set():
                getting = getting or tasks.start(subscription.get(BATCH), name="conch.store.read")
                waiting: set[asyncio.Future[Any]] = {getting, stopped}
                if self._outbox.publishing is not None:
                    waiting.add(self._outbox.publishing)
                patience = min(self._patience(), gathered.patience())
                done, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if self._outbox.publishing is not None and self._outbox.publishing.done():
                    await self._outbox.publish_next(())
                if getting.done():
                    gathered.put(getting.result())
                    getting = None
                if gathered.are_due:
                    deliveries = gathered.taken()
                    await self._outbox.publish_next(await self._join(deliveries, self._applied), deliveries[-1].seq)
                    if len(deliveries) > CROWDED:
                        await asyncio.wait({stopped}, timeout=LINGER_SECONDS)
                elif self._outbox.publishing is None:
                    await self._expire()
                    if not done:  # else the next transaction tells what was published
                        await self._outbox.settle()
                if self._pruning.is_due(idle=getting is not None):
                    await self._thread.run(self._pruning.step, self._store)
                if self._position.age() > SETTLE_SECONDS:
                    await self._tell()
            await self._outbox.publish_next(())

    def _patience(self) -> float:
        """Seconds until something is due: a deadline, pruning, the outbox's cleanup, a report of the position."""
        seconds = (self._due - datetime.now(UTC)).total_seconds() if self._due is not None else 60.0
        seconds = min(seconds, self._pruning.patience())
        is_moving = self._outbox.published or self._reached > self._position.told
        return max(0.0, min(seconds, SETTLE_SECONDS if is_moving else 60.0))

    async def _catch_up(self, end: int, stop: asyncio.Event) -> None:
        """Join the stream up to `end`, together with the experiences on it, before anything is recorded: a store that
        is made anew, or restored from a copy, continues the published revisions."""
        after = self._store.applied()
        if after >= end:
            return
        self._outbox.handled = after
        await self._tell()
        if stop.is_set():
            return
        unread = await self._bus.count(_CAUGHT_UP, after=after)
        batch: list[ReceivedEvent] = []
        async with aclosing(self._bus.read(_CAUGHT_UP, after=after)) as deliveries:  # type: ignore[type-var]
            async for delivery in deliveries:
                unread -= 1
                batch.append(ReceivedEvent(delivery, agent_of(delivery.subject) or ""))
                if len(batch) >= BATCH:
                    await self._join(batch, self._caught_up)
                    batch = []
                    if stop.is_set():
                        return
        if batch:
            await self._join(batch, self._caught_up)
        if unread > 0:  # the server skips what it cannot read, without an error
            sentence = f"{unread} events of the stream behind {after} are damaged and could not be joined"
            log.error("store.stream_damaged", why=sentence)
            self._note(sentence)
        await self._thread.run(self._look)
        while self._due is not None and self._due <= datetime.now(UTC) and not stop.is_set():
            await self._outbox.publish_next(await self._thread.run(self._expired), self._store.applied())

    def _note(self, sentence: str) -> None:
        self._report(ConsumerNote(consumer=self.name, note=sentence))

    def _caught_up(self, facts: list[tuple[int, Event]], upto: int) -> tuple[ExperienceRecorded, ...]:
        self._store.catch_up(facts, upto=upto, now=datetime.now(UTC))
        return ()

    async def _join(self, deliveries: Sequence[ReceivedEvent], put: Put) -> Sequence[ExperienceRecorded]:
        facts: list[tuple[int, Event]] = []
        ours = [delivery for delivery in deliveries if self._store.lacks(delivery.agent, delivery.seq)]
        if not ours:
            self._position.passed = deliveries[-1].seq
            return ()
        for delivery in ours:
            try:
                facts.append((delivery.seq, delivery.event))
            except ContractViolationError as error:
                if not delivery.delivery.subject.endswith(f".{ExperienceRecorded.TYPE}"):  # no fact that is joined
                    await self._give_up(delivery.delivery, str(error))
        while True:
            try:
                recorded = await self._thread.run(put, facts, deliveries[-1].seq)
                self._position.passed = 0
                break
            except ContractError as error:
                bad = next((one for one in deliveries if one.seq == getattr(error, "seq", None)), None)
                if bad is None:
                    raise
                await self._give_up(bad.delivery, str(error))
                facts = [fact for fact in facts if fact[0] != bad.seq]
        _log_joined(facts)
        self.tally.handled += len(facts)
        self.tally.duplicates = self._store.duplicates
        return recorded

    def _applied(self, facts: list[tuple[int, Event]], upto: int) -> tuple[ExperienceRecorded, ...]:
        published = tuple(self._outbox.published)
        recorded = self._store.apply(facts, upto=upto, now=datetime.now(UTC), published=published)
        del self._outbox.published[: len(published)]
        self._signing.stored(event for _, event in facts)
        self._look()
        return recorded

    def _look(self) -> None:
        self._waiting, self._due = self._store.waiting(), self._store.next_deadline()

    async def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.tally.letters += 1
        letter = dead_letter(SPEC, delivery, reason, 0)
        log.error("consumer.failed", consumer=self.name, seq=delivery.seq, reason=letter.reason)
        await publish_dead_letter(self._bus, letter)

    async def _expire(self) -> None:
        if self._due is not None and self._due <= datetime.now(UTC):
            await self._outbox.publish_next(await self._thread.run(self._expired))

    def _expired(self) -> tuple[ExperienceRecorded, ...]:
        recorded = self._store.expire(datetime.now(UTC))
        self._look()
        return recorded

    async def _tell(self) -> None:
        await self._position.tell(self._bus, self._store, self._reached)


def _log_joined(facts: Sequence[tuple[int, Event]]) -> None:
    told = log.bind()  # resolved once: there are many facts, and the level is seldom so low
    for seq, event in facts:
        told.debug("store.joined", fact=event.TYPE, seq=seq, agent_id=event.agent, action_id=event.action_id)


async def _set_back(store: ExperienceStore, thread: StoreThread, last: int) -> None:
    """Read from the end of the stream, `last`, where the store is beyond it: the stream was restored, and what comes
    now is not what was read."""
    if store.applied() > last:
        log.error("store.taken_back", position=store.applied(), last=last)
        await thread.run(store.set_position, last)

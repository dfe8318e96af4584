"""The runtime of one consumer: decode, handle, publish, acknowledge; in that order, so that a crash repeats work and
never loses it.

An agent's events are handled one after the other in stream order; different agents' side by side. Position and states
are written once a second and at the end: what a crash makes it read again gives the same ids, and what it finds on the
stream already it does not publish again.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from conch.bus import Arrived, Delivery, Feed, Tap
from conch.bus.feed import decoded
from conch.consumer.letters import dead_letter
from conch.consumer.snapshot import (
    Held,
    before_key,
    encode_state,
    load_place,
    load_state,
    save_place,
    save_state,
)
from conch.consumer.spec import ConsumerSpec
from conch.errors import BusError, ConchError, ContractError, FencedError
from conch_schemas import (
    STREAM_SUBJECTS,
    ConsumerFailed,
    ContractViolationError,
    Event,
    agent_of,
    encode,
    subject_filter,
    subject_of,
)

log = structlog.get_logger(__name__)

RETRY_SECONDS = (0.1, 0.5, 2.0, 8.0)
"""Waits between the tries of a failing event; the last one again and again if there are more."""
IN_HAND = 1024
"""Events taken and not yet handled, of all agents; more wait on the stream."""
SNAPSHOT_SECONDS = 1.0
"""Time between two writings of position and states: the most work that a crash repeats."""


@dataclass
class Tally:
    """What a consumer has counted since it started."""

    handled: int = 0
    duplicates: int = 0
    failures: int = 0
    """Tries that raised."""
    letters: int = 0


@dataclass
class _Lane:
    """One agent's way through: a queue and the task that empties it."""

    agent: str
    queue: asyncio.Queue[Arrived] = field(default_factory=asyncio.Queue)
    driver: asyncio.Task[None] | None = None
    held: Held | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class Before:
    """A fold's state before an event, for its dead letter's retry."""

    state: Any
    seq: int


class ConsumerRuntime:
    """Runs one consumer on a feed."""

    def __init__(self, feed: Feed, spec: ConsumerSpec, *, retry_seconds: Sequence[float] = RETRY_SECONDS) -> None:
        self.spec, self.tally = spec, Tally()
        self._feed, self._bus, self._retry_seconds = feed, feed.bus, retry_seconds
        self._tap: Tap | None = None
        self._lanes: dict[str, _Lane] = {}
        self._open: dict[int, None] = {}
        """Sequences taken and not yet done, in order."""
        self._dealt = 0
        self._known: set[str] = set()
        """Ids of its own that stand on the stream behind its position: a run before this one published them."""
        self._wrote = False
        self._writing = asyncio.Lock()
        """Held by whoever writes states or the position: crossed, our own writes would look like another copy's."""
        self._log = log.bind(consumer=spec.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: then what is in hand is finished, written down and acknowledged.

        Raises FencedError when another copy took over, ContractError for a position or state that cannot be read,
        BusError when the bus refuses for good. Cancelled, it lets go at once; the next run does again what was not
        written down.
        """
        while True:
            try:
                await self._run(stop)
                break
            except* ConchError as failed:
                raise failed.exceptions[0] from None
            except* _OvertakenError:
                self._log.info("consumer.begins_again")
        self._log.info("consumer.stopped", at=self._place.seq, **vars(self.tally))

    async def _run(self, stop: asyncio.Event) -> None:
        self._lanes.clear()
        self._open.clear()
        self._room = asyncio.Semaphore(IN_HAND)
        self._stream = await self._bus.state()
        self._place = await load_place(self._bus, self.spec)
        self._dealt = self._place.seq
        filters = [subject_filter(kind) for kind in self.spec.kinds]
        self._known = await self._published_before(filters)
        async with (
            self._feed.tap(self.spec.kinds, after=self._place.seq) as self._tap,
            self._bus.serve(f"conch.ctl._consumer.{self.spec.name}.retry", self._asked_to_retry),
        ):
            self._log.info("consumer.started", after=self._place.seq)
            async with asyncio.TaskGroup() as group:
                over = asyncio.Event()
                group.create_task(self._snapshots(over), name=f"conch.{self.spec.name}.snapshots")
                await self._take(self._tap, group, stop)
                for lane in tuple(self._lanes.values()):
                    await lane.queue.join()
                over.set()
                for lane in self._lanes.values():
                    if lane.driver is not None:
                        lane.driver.cancel()
            await self._snapshot()

    async def _take(self, tap: Tap, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        """Take until told to stop. What was taken and not dealt out then comes again: the position does not pass it."""
        dealing = group.create_task(self._deal(tap, group), name=f"conch.{self.spec.name}.deal")
        await stop.wait()
        dealing.cancel()
        await asyncio.wait([dealing])

    async def _deal(self, tap: Tap, group: asyncio.TaskGroup) -> None:
        while True:
            deliveries = await tap.get()
            if self.spec.linger:
                await asyncio.sleep(self.spec.linger)
            for delivery in deliveries:
                await self._room.acquire()
                self._open[delivery.seq] = None
                self._dealt = delivery.seq
                lane = self._lane(delivery.subject)
                if lane.driver is None:
                    lane.driver = group.create_task(self._drive(lane), name=f"conch.{self.spec.name}.{lane.agent}")
                lane.queue.put_nowait(delivery)

    def _lane(self, subject: str) -> _Lane:
        agent = agent_of(subject) or ""
        return self._lanes.setdefault(agent, _Lane(agent))

    async def _drive(self, lane: _Lane) -> None:
        while True:
            delivery = await lane.queue.get()
            async with lane.lock:
                await self._settle(lane, delivery)
            del self._open[delivery.seq]
            self._room.release()
            lane.queue.task_done()

    async def _settle(self, lane: _Lane, delivery: Arrived) -> None:
        """Handle one event to its end: done, a duplicate, or a dead letter."""
        try:
            event = delivery.event
        except ContractViolationError as error:
            await self._give_up(lane, delivery.delivery, str(error), 0)
            return
        if event.id in self._place.recent:
            self.tally.duplicates += 1
            return
        if self.spec.state is not None:
            held = await self._held(lane)
            if delivery.seq <= held.seq:
                return  # in the state already: it was written after the position
        for tries in range(1, self.spec.tries + 1):
            try:
                await self._handle(lane, event, delivery.seq)
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                if isinstance(error, BusError) or _cancelled(error):
                    raise
                self.tally.failures += 1
                reason = f"{type(error).__name__}: {error}"
                if tries == self.spec.tries:
                    before = Before(lane.held.state, lane.held.seq) if lane.held is not None else None
                    await self._give_up(lane, delivery.delivery, reason, tries, before)
                else:
                    self._log.warning("consumer.retried", seq=delivery.seq, tries=tries, error=reason)
                    await asyncio.sleep(self._retry_seconds[min(tries, len(self._retry_seconds)) - 1])
            else:
                break
        self._place.remember(event.id)

    async def _handle(self, lane: _Lane, event: Event, seq: int) -> None:
        if self.spec.state is None:
            result: Any = self.spec.handle(event)
            facts = await result if inspect.isawaitable(result) else result
            await self._publish(facts, self._known)
        else:
            held = await self._held(lane)
            held.state, held.seq = await self._fold(held.state, event, self._known), seq
        self.tally.handled += 1

    async def _fold(self, state: Any, event: Event, known: set[str]) -> Any:
        """The state after `event`, what follows from it being published. The same state where the handler raises."""
        assert self.spec.state is not None
        after, facts = self.spec.handle(state, event)
        if not isinstance(after, self.spec.state):
            raise ContractError(f"fold {self.spec.name} returned a state that is no {self.spec.state.__name__}")
        await self._publish(facts, known)
        return after

    async def _held(self, lane: _Lane) -> Held:
        if lane.held is None:
            lane.held = await load_state(self._bus, self.spec, lane.agent, self._stream)
        return lane.held

    async def _publish(self, facts: Event | Sequence[Event] | None, known: set[str]) -> None:
        if facts is None:
            return
        for fact in (facts,) if isinstance(facts, Event) else facts:
            if not isinstance(fact, Event):
                raise ContractError(f"consumer {self.spec.name} returned {type(fact).__name__}, not an event")
            await self._say(fact, known)

    async def _say(self, fact: Event, known: set[str]) -> None:
        if fact.id in known:
            self.tally.duplicates += 1
            return
        stored = await self._bus.publish(subject_of(fact), encode(fact), id=fact.id)
        self.tally.duplicates += stored.duplicate

    async def _give_up(
        self, lane: _Lane, delivery: Delivery, reason: str, tries: int, before: Before | None = None
    ) -> None:
        """The dead letter, then go on; a fold's state before it is kept, for the retry."""
        self.tally.letters += 1
        letter = dead_letter(self.spec, delivery, reason, tries)
        self._log.error("consumer.failed", seq=delivery.seq, subject=letter.letter_subject, reason=letter.reason)
        if delivery.subject.endswith(ConsumerFailed.TYPE):
            return  # a letter about a letter would be read, and fail, without end; the log has it
        if before is not None:
            await self._keep_before(lane.agent, delivery.seq, before)
        await self._say(letter, self._known)

    async def _keep_before(self, agent: str, seq: int, before: Before) -> None:
        key = before_key(self.spec.name, agent, seq)
        entry = await self._bus.get(key)
        value = encode_state(before.state, before.seq, self._stream.epoch)
        await self._bus.put(key, value, revision=entry.revision if entry is not None else 0)

    async def _published_before(self, filters: Sequence[str]) -> set[str]:
        """Ids that a run before this one may have published already: behind the first event that is still to handle."""
        async for delivery in self._bus.read(filters, after=self._place.seq):
            return await self._published_since(delivery.seq)
        return set()

    async def _published_since(self, seq: int) -> set[str]:
        emits = [subject_filter(kind) for kind in self.spec.emits]
        filters = [*emits, subject_filter(ConsumerFailed)] if emits else STREAM_SUBJECTS
        found = set()
        async for delivery in self._bus.read(filters, after=seq):
            try:
                found.add(str(json.loads(delivery.data)["id"]))
            except (ValueError, LookupError, TypeError, RecursionError):
                continue  # not an event: nobody published it here
        return found

    async def _snapshots(self, over: asyncio.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SNAPSHOT_SECONDS):
                    await over.wait()
                    return
            await self._snapshot()

    async def _snapshot(self) -> None:
        """States first, then the position, then the acknowledgement: none may lead the one before."""
        async with self._writing:
            # Both as of now: while states are written, lanes go on, and what is not in a written state may not be said
            # to be handled.
            done, recent = self.handled, list(self._place.recent)
            if done <= self._place.seq:
                return
            try:
                for lane in tuple(self._lanes.values()):
                    if lane.held is not None:
                        await save_state(self._bus, self.spec, lane.agent, lane.held, self._place.epoch)
                await save_place(self._bus, self.spec, self._place, done, recent)
            except FencedError:
                if self._wrote:
                    raise
                raise _OvertakenError from None
            self._wrote = True

    async def _asked_to_retry(self, _subject: str, data: bytes) -> bytes:
        """A dead letter once more, by request: `{"seq": …}`; the reply says `ok` or why not."""
        try:
            await self.retry(int(json.loads(data)["seq"]))
        except Exception as error:
            return json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
        return b'{"ok":true}'

    @property
    def handled(self) -> int:
        """Everything up to this sequence is handled, and what followed from it is published."""
        if self._open:
            return next(iter(self._open)) - 1
        if self._tap is None or self._tap.given > self._dealt:
            return self._dealt
        return self._tap.seen

    async def retry(self, seq: int) -> None:
        """Handle a dead letter once more; raises what the handler raises.

        A fold is rebuilt from the state before the letter: what came after it is folded again, and what was published
        then is not published twice.
        """
        delivery = await self._bus.at(seq)
        if delivery is None:
            raise ContractError(f"event {seq} is no longer on the stream")
        event = decoded(delivery.subject, delivery.data)
        lane = self._lane(delivery.subject)
        async with lane.lock:
            if self.spec.state is None:
                await self._handle(lane, event, seq)
                return
            before = await self._bus.get(before_key(self.spec.name, lane.agent, seq))
            found = json.loads(before.value) if before is not None else {}
            if found.get("epoch") != self._stream.epoch:
                raise ContractError(f"the state before event {seq} is not known: conch consumer reset {self.spec.name}")
            await self._rebuild(lane, self.spec.state.model_validate(found["state"]), seq)

    async def retry_alone(self, seq: int) -> None:
        """The same for a runtime that does not run. No other copy of the consumer may run meanwhile."""
        self._stream = await self._bus.state()
        await self.retry(seq)

    async def _rebuild(self, lane: _Lane, state: Any, seq: int) -> None:
        """The lane's state anew from `state` before event `seq`. What fails on the way behind it gets a letter (or has
        one), and the states before other letters are brought up to date."""
        held = await self._held(lane)
        upto = max(held.seq, seq)
        known = self._known | await self._published_since(seq)
        prefix = before_key(self.spec.name, lane.agent, 0)[:-1]
        letters = {int(key.removeprefix(prefix)) for key in await self._bus.keys() if key.startswith(prefix)}
        folded: set[str] = set()
        filters = [subject_filter(kind, lane.agent) for kind in self.spec.kinds]
        async for delivery in self._bus.read(filters, after=seq - 1):
            if delivery.seq > upto:
                break
            try:
                event = decoded(delivery.subject, delivery.data)
            except ContractViolationError:
                continue  # has a letter of its own
            if event.id in folded:
                continue
            folded.add(event.id)
            if delivery.seq in letters - {seq}:
                await self._keep_before(lane.agent, delivery.seq, Before(state, delivery.seq - 1))
            try:
                state = await self._fold(state, event, known)
            except Exception as error:
                if delivery.seq == seq or isinstance(error, BusError):
                    raise
                reason = f"{type(error).__name__}: {error}"
                await self._give_up(lane, delivery, reason, 1, Before(state, delivery.seq - 1))
        async with self._writing:
            held.state, held.seq, held.saved = state, upto, -1
            await save_state(self._bus, self.spec, lane.agent, held, self._stream.epoch)


class _OvertakenError(Exception):
    """The copy that we took over from wrote once more after we had read: begin again from there."""


def _cancelled(error: BaseException) -> bool:
    """Whether it is this task that is being cancelled, and not something that the handler waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

"""The runtime of one consumer: decode, handle, publish, acknowledge; in that order, so that a crash repeats work and
never loses it.

An agent's events are handled one after the other in stream order; different agents' side by side. Position and states
are written once a second and at the end: what a crash makes it read again gives the same ids, and what it finds on the
stream already it does not publish again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from conch.bus import Bus, Delivery, Reader
from conch.consumer.letters import dead_letter, publish_letter
from conch.consumer.snapshot import (
    Held,
    before_key,
    encode_state,
    load_place,
    load_state,
    save_place,
    save_state,
    state_key,
)
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError, FencedError
from conch_schemas import ContractViolationError, Event, agent_of, decode, encode, subject_filter, subject_of

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
    queue: asyncio.Queue[Delivery] = field(default_factory=asyncio.Queue)
    held: Held | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ConsumerRuntime:
    """Runs one consumer on a bus."""

    def __init__(self, bus: Bus, spec: ConsumerSpec, *, retry_seconds: Sequence[float] = RETRY_SECONDS) -> None:
        self.spec, self.tally = spec, Tally()
        self._bus, self._retry_seconds = bus, retry_seconds
        self._lanes: dict[str, _Lane] = {}
        self._open: dict[int, None] = {}
        """Sequences taken and not yet done, in order."""
        self._taken = 0
        self._room = asyncio.Semaphore(IN_HAND)
        self._known: set[str] = set()
        self._log = log.bind(consumer=spec.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: then what is in hand is finished, written down and acknowledged.

        Raises FencedError when another copy took over, ContractError for a state that cannot be read. Cancelled, it
        lets go at once; the next run does again what was not written down.
        """
        self._place = await load_place(self._bus, self.spec)
        self._taken = self._place.seq
        self._known = await self._published_since(self._place.seq)
        filters = [subject_filter(kind) for kind in self.spec.kinds]
        async with (
            self._bus.consume(self.spec.name, filters, after=self._place.seq) as reader,
            self._bus.serve(f"conch.ctl._consumer.{self.spec.name}.retry", self._asked_to_retry),
        ):
            self._log.info("consumer.started", after=self._place.seq)
            try:
                async with asyncio.TaskGroup() as group:
                    snapshots = group.create_task(self._snapshots(reader), name=f"conch.{self.spec.name}.snapshots")
                    await self._take(reader, group, stop)
                    for lane in self._lanes.values():
                        await lane.queue.join()
                    snapshots.cancel()
                    for task in self._tasks:
                        task.cancel()
            except* FencedError as fenced:
                raise fenced.exceptions[0] from None
            except* ContractError as broken:
                raise broken.exceptions[0] from None
            await self._snapshot(reader)
        self._log.info("consumer.stopped", at=self._place.seq, **vars(self.tally))

    async def _take(self, reader: Reader, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        """Deal out what comes to the lanes until told to stop."""
        self._tasks: list[asyncio.Task[None]] = []
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                getting = asyncio.ensure_future(reader.get())
                await asyncio.wait({getting, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    getting.cancel()
                    await asyncio.gather(getting, return_exceptions=True)
                    return
                for delivery in getting.result():
                    await self._room.acquire()
                    self._taken = delivery.seq
                    self._open[delivery.seq] = None
                    self._lane_of(delivery, group).queue.put_nowait(delivery)
        finally:
            stopped.cancel()

    def _lane_of(self, delivery: Delivery, group: asyncio.TaskGroup) -> _Lane:
        agent = agent_of(delivery.subject) or ""
        if (lane := self._lanes.get(agent)) is None:
            lane = self._lanes[agent] = _Lane(agent)
            self._tasks.append(group.create_task(self._drive(lane), name=f"conch.{self.spec.name}.{agent}"))
        return lane

    async def _drive(self, lane: _Lane) -> None:
        while True:
            delivery = await lane.queue.get()
            async with lane.lock:
                await self._settle(lane, delivery)
            del self._open[delivery.seq]
            self._room.release()
            lane.queue.task_done()

    async def _settle(self, lane: _Lane, delivery: Delivery) -> None:
        """Handle one event to its end: done, a duplicate, or a dead letter."""
        try:
            event = self._decoded(delivery)
        except ContractViolationError as error:
            await self._give_up(lane, delivery, str(error), 0)
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
            except (Exception, SystemExit) as error:
                if isinstance(error, FencedError):
                    raise
                self.tally.failures += 1
                reason = f"{type(error).__name__}: {error}"
                if tries == self.spec.tries:
                    await self._give_up(lane, delivery, reason, tries)
                else:
                    self._log.warning("consumer.retried", seq=delivery.seq, tries=tries, error=reason)
                    await asyncio.sleep(self._retry_seconds[min(tries, len(self._retry_seconds)) - 1])
            else:
                break
        self._place.remember(event.id)

    def _decoded(self, delivery: Delivery) -> Event:
        event = decode(delivery.data)
        if subject_of(event) != delivery.subject:
            raise ContractViolationError(f"an event {event.TYPE} of {event.agent} stands on {delivery.subject[:200]!r}")
        return event

    async def _handle(self, lane: _Lane, event: Event, seq: int) -> None:
        if self.spec.state is None:
            result: Any = self.spec.handle(event)
            facts = await result if inspect.isawaitable(result) else result
            await self._publish(facts)
        else:
            held = await self._held(lane)
            state, facts = self.spec.handle(held.state, event)
            await self._publish(facts)
            held.state, held.seq = state, seq
        self.tally.handled += 1

    async def _held(self, lane: _Lane) -> Held:
        if lane.held is None:
            lane.held = await load_state(self._bus, self.spec, lane.agent, self._end)
        return lane.held

    async def _publish(self, facts: Event | Sequence[Event] | None) -> None:
        if facts is None:
            return
        for fact in (facts,) if isinstance(facts, Event) else facts:
            if not isinstance(fact, Event):
                raise ContractError(f"consumer {self.spec.name} returned {type(fact).__name__}, not an event")
            if fact.id in self._known:
                self.tally.duplicates += 1
                continue
            stored = await self._bus.publish(subject_of(fact), encode(fact), id=fact.id)
            self.tally.duplicates += stored.duplicate

    async def _give_up(self, lane: _Lane, delivery: Delivery, reason: str, tries: int) -> None:
        """The dead letter, then go on; a fold's state before it is kept, for the retry."""
        self.tally.letters += 1
        letter = dead_letter(self.spec, delivery, reason, tries)
        self._log.error("consumer.failed", seq=delivery.seq, subject=letter.letter_subject, reason=letter.reason)
        if self.spec.state is not None and tries:
            held = await self._held(lane)
            key = before_key(self.spec.name, lane.agent, delivery.seq)
            if await self._bus.get(key) is None:
                await self._bus.put(key, encode_state(held.state, held.seq), revision=0)
        await publish_letter(self._bus, letter)

    async def _published_since(self, seq: int) -> set[str]:
        """Ids of what stands on the stream behind `seq`: a run before this one may have published it already."""
        self._end = (await self._bus.state()).last
        filters = [subject_filter(kind) for kind in self.spec.emits] or ["conch.v1.>"]
        found = set()
        async for delivery in self._bus.read(filters, after=seq):
            try:
                found.add(str(json.loads(delivery.data)["id"]))
            except (ValueError, LookupError, TypeError, RecursionError):
                continue  # not an event: nobody published it here
        return found

    async def _snapshots(self, reader: Reader) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_SECONDS)
            await self._snapshot(reader)

    async def _snapshot(self, reader: Reader) -> None:
        """States first, then the position, then the acknowledgement: none may lead the one before."""
        done = next(iter(self._open)) - 1 if self._open else self._taken
        if done <= self._place.seq:
            return
        for lane in tuple(self._lanes.values()):
            if lane.held is not None:
                await save_state(self._bus, self.spec, lane.agent, lane.held)
        await save_place(self._bus, self.spec, self._place, done)
        await reader.ack(done)

    async def _asked_to_retry(self, _subject: str, data: bytes) -> bytes:
        """A dead letter once more, by request: `{"seq": …}`; the reply says `ok` or why not."""
        try:
            await self.retry(int(json.loads(data)["seq"]))
        except Exception as error:
            return json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
        return b'{"ok":true}'

    @property
    def busy(self) -> bool:
        """Whether something is in hand."""
        return bool(self._open)

    async def retry(self, seq: int) -> None:
        """Handle a dead letter once more; raises what the handler raises.

        A fold is rebuilt from the state before the letter: what came after it is folded again, and what was published
        then is not published twice.
        """
        delivery = await self._bus.at(seq)
        if delivery is None:
            raise ContractError(f"event {seq} is no longer on the stream")
        event = self._decoded(delivery)
        lane = self._lanes.get(agent_of(delivery.subject) or "") or _Lane(agent_of(delivery.subject) or "")
        async with lane.lock:
            if self.spec.state is None:
                await self._handle(lane, event, seq)
                return
            before = await self._bus.get(before_key(self.spec.name, lane.agent, seq))
            if before is None:
                raise ContractError(f"the state before event {seq} is not known")
            await self._rebuild(lane, before.value, seq)

    async def _rebuild(self, lane: _Lane, before: bytes, seq: int) -> None:
        assert self.spec.state is not None
        held = await self._held(lane)
        upto = max(held.seq, seq)
        self._known |= await self._published_since(seq)
        state: Any = self.spec.state.model_validate(json.loads(before)["state"])
        filters = [subject_filter(kind, lane.agent) for kind in self.spec.kinds]
        async for delivery in self._bus.read(filters, after=seq - 1):
            if delivery.seq > upto:
                break
            try:
                event = self._decoded(delivery)
            except ContractViolationError:
                continue  # has a letter of its own
            state, facts = self.spec.handle(state, event)
            await self._publish(facts)
        held.state, held.seq = state, upto
        value = encode_state(state, upto)
        held.revision = await self._bus.put(state_key(self.spec.name, lane.agent), value, revision=held.revision)
        held.saved = upto

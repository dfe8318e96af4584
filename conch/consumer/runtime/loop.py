"""The runtime of one consumer: decode, handle, publish, store the position; in that order, so that a crash repeats work
and never loses it.

Events are handled as they come, a batch at a time, and what follows from a batch is published in one piece while the
next is handled. An agent's events keep their order: behind one that fails, or takes its time, the other events of that
agent wait in its queue; other agents do not wait. Where a consumer handles events concurrently, what follows from each
is published as soon as it is there, and the position stays before the first that is still in hand. Position and states
are stored once a second and at the end: events read again after a crash give the same ids, and what is on the stream
already is not published again.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bound_contextvars

from conch.bus import OutgoingMessage, ReceivedEvent, SharedSubscription, StreamSubscription
from conch.consumer.group.position import EVERYTHING, ConsumerPosition, take_position
from conch.consumer.runtime.dead_letters import answer_retry
from conch.consumer.runtime.output import ConsumerCounts, ConsumerOutput, StateBeforeEvent
from conch.consumer.runtime.queues import AgentQueue
from conch.consumer.runtime.replay import StateRebuild, dead
from conch.consumer.runtime.state import FoldState, UnreadableStateError, load_state, save_state
from conch.consumer.spec import ConsumerSpec
from conch.errors import BusError, ConchError, FencedError
from conch.log import get_logger
from conch.retry import EVENT, Backoff
from conch.telemetry import handling
from conch.uptime import uptime
from conch_schemas import ContractViolationError, Event, trace_id

log = get_logger(__name__)

BATCH = 256
"""Events taken at a time, where the consumer names no other number."""
MAX_IN_FLIGHT = 4
"""Batches handled and not yet published, where the consumer names no other number; more wait on the stream."""
ENQUEUED = 1024
"""Events that wait in per-agent queues, of all agents; more wait on the stream."""
SNAPSHOT_SECONDS = 1.0
"""Time between two writings of position and states: the most work that a crash repeats."""
SNAPSHOT_SHARE, SNAPSHOT_LONGEST = 0.05, 30.0
"""Most of the time that may be spent on it: with many agents it is done more seldom, in seconds at most so seldom."""
MAX_AGENT_QUEUES = 10_000
"""Agents that are known at once, and the states of folds with them."""
SURE_SECONDS = 5.0
"""Seconds that a partition counts as owned without a check: as long as others wait before they take it."""
STATES_AT_ONCE = 64
"""States that are written to the bucket side by side."""


@dataclass(eq=False)
class _InFlightBatch:
    """A handled batch whose events are being published; or an event that is handled concurrently with others."""

    first: int
    ids: list[str]
    """Ids of the events that were handled."""
    messages: list[OutgoingMessage]


class ConsumerRuntime:
    """Runs one consumer on a shared subscription, from its position.

    `consumer_position` None: the position of all agents, taken over from its owner.
    """

    def __init__(
        self,
        shared_events: SharedSubscription,
        spec: ConsumerSpec,
        *,
        consumer_position: ConsumerPosition | None = None,
        backoff: Backoff = EVENT,
    ) -> None:
        self.spec, self.tally = spec, ConsumerCounts()
        self._shared_events, self._bus, self._backoff = shared_events, shared_events.bus, backoff
        self._given = consumer_position
        self._subscription: StreamSubscription | None = None
        self._agent_queues: dict[str, AgentQueue] = {}
        self._busy: dict[str, AgentQueue] = {}
        """Per-agent queues in which events wait."""
        self._in_flight_batches: dict[_InFlightBatch, asyncio.Task[None]] = {}
        self._hot: set[str] = set()
        """Ids of what is handled, and not yet published."""
        self._enqueued = self._dealt = 0
        self._sure = math.inf
        """When ownership of the partitions was last confirmed, by `uptime`; infinite while the consumer does not
        run."""
        self._looking = asyncio.Lock()
        """In turn: what waits for a look first is published first."""
        self._getting = self._stopping = False
        self._slow = inspect.iscoroutinefunction(spec.handle)
        self._room = asyncio.Event()
        self._output = ConsumerOutput(shared_events, spec, self.tally)
        self._writing = asyncio.Lock()
        """Held while states or the position are written: crossed, our own writes would look like another copy's."""
        self._log = log.bind(consumer=spec.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Handle events until `stop` is set; then events in hand are finished and the position is stored.

        Raises FencedError when another copy took over, or wrote a state after this one had read it and the position was
        given: it has to be loaded anew. Raises ContractError for a position or state that cannot be read, BusError when
        the bus refuses for good. Cancelled, it ends at once; the next run repeats what was not stored.
        """
        while True:
            try:
                await self._run(stop)
                break
            except* _OvertakenError as overtaken:
                if self._given is not None:
                    raise overtaken.exceptions[0] from None
                self._log.info("consumer.begins_again")
            except* ConchError as failed:
                raise failed.exceptions[0] from None
        self._log.info("consumer.stopped", at=self._consumer_position.seq, **vars(self.tally))

    async def _run(self, stop: asyncio.Event) -> None:
        for waiting in (self._agent_queues, self._busy, self._in_flight_batches, self._hot):
            waiting.clear()
        self._enqueued, self._stopping = 0, False
        self._stream = await self._bus.state()
        self._consumer_position = self._given or await take_position(self._bus, self.spec)
        self._highest = max(self._consumer_position.floors.values())
        self._dealt = self._consumer_position.seq
        self._sure = uptime()
        await self._output.look(self._consumer_position.seq)
        mine = self._consumer_position.holds if len(self._consumer_position.floors) < len(EVERYTHING) else None
        async with (
            self._shared_events.subscribe(
                self.spec.kinds, after=self._consumer_position.seq, mine=mine
            ) as self._subscription,
            self._bus.serve(control_of(self.spec.name, self._consumer_position.holder), self._asked_to_retry),
        ):
            self._log.info("consumer.started", after=self._consumer_position.seq)
            async with asyncio.TaskGroup() as self._group:
                over = asyncio.Event()
                self._start("snapshots", self._snapshots(over))
                dealing = self._start("deal", self._dispatch(self._subscription))
                await stop.wait()
                self._stopping = True
                if self._getting:
                    dealing.cancel()  # what was taken and not dealt out comes again: the position does not pass it
                await asyncio.wait([dealing])
                await self._finish_in_hand()
                over.set()
            await self._snapshot()
            await self._consumer_position.let_go()

    def _start(self, name: str, work: Any) -> asyncio.Task[None]:
        return self._group.create_task(work, name=f"conch.{self.spec.name}.{name}")

    async def _finish_in_hand(self) -> None:
        while at_work := [
            *self._in_flight_batches.values(),
            *(agent_queue.worker for agent_queue in self._busy.values() if agent_queue.worker),
        ]:
            await asyncio.wait(at_work)

    # -- taking and handling -----------------------------------------------------------------------------------------

    async def _dispatch(self, subscription: StreamSubscription) -> None:
        while await self._may_take():
            self._getting = True
            beside = self.spec.at_once - len(self._in_flight_batches) if self.spec.at_once else BATCH
            most = min(self.spec.batch or beside, ENQUEUED - self._enqueued)
            arrivals = await subscription.get(most)
            self._getting = False
            if self.spec.linger and len(arrivals) < most:  # where more waits already, to wait would be to fall behind
                await asyncio.sleep(self.spec.linger)
            if self.spec.at_once:
                await self._take_apart(arrivals)
            elif self.spec.batch:
                await self._take_together(arrivals)
            else:
                await self._take_each(arrivals)
            self._dealt = arrivals[-1].seq

    async def _may_take(self) -> bool:
        """Wait until there is room; whether more is to be taken then."""
        while len(self._in_flight_batches) >= (self.spec.at_once or MAX_IN_FLIGHT) or self._enqueued >= ENQUEUED:
            self._room.clear()
            await self._room.wait()
        return not self._stopping

    async def _take_each(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Handle what can be handled now, in order; the rest waits in the per-agent queues."""
        if self.spec.state is not None:
            await self._load_states(arrivals)
        # No await from here to the in-flight batch: a state must not be stored before the events it has published are
        # known.
        in_flight = _InFlightBatch(arrivals[0].seq, [], [])
        for arrived in arrivals:
            if self._is_below(arrived):
                continue
            agent_queue = self._agent_queue(arrived.agent)
            unread = (
                self.spec.state is not None and agent_queue.held is None
            )  # while others were read its queue was forgotten
            if (
                self._slow
                or unread
                or agent_queue.worker is not None
                or agent_queue.free.locked()
                or not arrived.is_event
            ):
                self._enqueue(agent_queue, arrived)
                continue
            try:
                self._handle_now(agent_queue, arrived.event, arrived.seq, in_flight)
            except (Exception, SystemExit) as error:
                agent_queue.failed = error
                self._enqueue(agent_queue, arrived)
        handling.set(None)
        self._fly(in_flight)

    def _is_below(self, arrived: ReceivedEvent) -> bool:
        """Whether it was handled before this worker got its partition: the other partitions' positions may be lower."""
        return arrived.seq <= self._highest and arrived.seq <= self._consumer_position.floor(arrived.agent)

    async def _load_states(self, arrivals: Sequence[ReceivedEvent]) -> None:
        for agent in {arrived.agent for arrived in arrivals}:
            agent_queue = self._agent_queue(agent)
            if agent_queue.held is None:
                agent_queue.held = await load_state(self._bus, self.spec, agent, self._stream)

    def _handle_now(self, agent_queue: AgentQueue, event: Event, seq: int, in_flight: _InFlightBatch) -> None:
        """Handle one event at once. When this raises, nothing has changed: the event is tried again in its agent's
        queue."""
        if self._is_done(agent_queue, event.id, seq):
            return
        handling.set(event)
        if self.spec.state is None:
            in_flight.messages += self._output.messages(self.spec.handle(event))
        else:
            assert agent_queue.held is not None
            state, facts = self.spec.folded(self.spec.handle(agent_queue.held.state, event))
            in_flight.messages += self._output.messages(facts)
            agent_queue.held.state, agent_queue.held.seq = state, seq
        self._log.debug("consumer.handled", fact=event.TYPE, seq=seq)
        self._hot.add(event.id)
        in_flight.ids.append(event.id)
        self.tally.handled += 1

    def _is_done(self, agent_queue: AgentQueue, id: str, seq: int) -> bool:
        """Whether this event was handled before, here or in a state that was written after the position."""
        if id in self._consumer_position.recent or id in self._hot:
            self.tally.duplicates += 1
            return True
        return agent_queue.held is not None and seq <= agent_queue.held.seq

    async def _take_together(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Pass a whole batch to the consumer. Where it fails on all tries, each event is handled by itself."""
        taken: dict[str, tuple[ReceivedEvent, Event]] = {}
        for arrived in arrivals:
            if self._is_below(arrived):
                continue
            try:
                event = arrived.event
            except ContractViolationError as error:
                await self._output.give_up(arrived.delivery, str(error), 0)
                continue
            if event.id in taken or self._is_done(self._agent_queue(arrived.agent), event.id, arrived.seq):
                self.tally.duplicates += event.id in taken
            else:
                taken[event.id] = arrived, event
        in_flight = _InFlightBatch(arrivals[0].seq, list(taken), [])
        if taken and not await self._handled_together(list(taken.values()), in_flight):
            for arrived, event in taken.values():
                if not await self._handled_together([(arrived, event)], in_flight, tries=1):
                    await self._output.give_up(arrived.delivery, self._why, self.spec.tries)
        self._hot |= set(in_flight.ids)
        self._fly(in_flight)

    async def _handled_together(
        self, taken: Sequence[tuple[ReceivedEvent, Event]], in_flight: _InFlightBatch, tries: int = 0
    ) -> bool:
        for number in range(1, (tries or self.spec.tries) + 1):
            try:
                facts = await _awaited(self.spec.handle([event for _, event in taken]))
                in_flight.messages += self._output.messages(facts)
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                await self._stumbled(error, taken[0][0].seq, number, tries or self.spec.tries)
            else:
                self.tally.handled += len(taken)
                for arrived, event in taken:
                    handling.set(event)
                    self._log.debug("consumer.handled", fact=event.TYPE, seq=arrived.seq)
                handling.set(None)
                return True
        return False

    # -- side by side ------------------------------------------------------------------------------------------------

    async def _take_apart(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Begin with each, in their order, and wait for none."""
        await self._be_sure()  # here for all: no task then waits before its handler, so those begin in this order
        for arrived in arrivals:
            if not self._is_below(arrived):
                in_flight = _InFlightBatch(arrived.seq, [], [])
                self._in_flight_batches[in_flight] = self._start(
                    f"event{arrived.seq}", self._see_through(arrived, in_flight)
                )

    async def _see_through(self, arrived: ReceivedEvent, in_flight: _InFlightBatch) -> None:
        await self._settle(AgentQueue(arrived.agent), arrived)
        del self._in_flight_batches[in_flight]
        self._room.set()

    # -- in queues ---------------------------------------------------------------------------------------------------

    def _agent_queue(self, agent: str) -> AgentQueue:
        agent_queue = self._agent_queues.get(agent)
        if agent_queue is None:
            agent_queue = self._agent_queues[agent] = AgentQueue(agent)
        return agent_queue

    def _enqueue(self, agent_queue: AgentQueue, arrived: ReceivedEvent) -> None:
        agent_queue.queue.append(arrived)
        self._enqueued += 1
        self._busy[agent_queue.agent] = agent_queue
        if agent_queue.worker is None:
            agent_queue.worker = self._start(agent_queue.agent, self._empty(agent_queue))

    async def _empty(self, agent_queue: AgentQueue) -> None:
        while agent_queue.queue:
            async with agent_queue.free:
                await self._settle(agent_queue, agent_queue.queue[0])
            agent_queue.queue.popleft()
            self._enqueued -= 1
            self._room.set()
        agent_queue.worker = None
        del self._busy[agent_queue.agent]

    async def _settle(self, agent_queue: AgentQueue, arrived: ReceivedEvent) -> None:
        """Handle one event to its end: done, a duplicate, or a dead letter."""
        handling.set(None)  # the queue's task began while another event was handled
        try:
            event = arrived.event
        except ContractViolationError as error:
            await self._output.give_up(arrived.delivery, str(error), 0)
            return
        if self.spec.state is not None and agent_queue.held is None:
            agent_queue.held = await load_state(self._bus, self.spec, agent_queue.agent, self._stream)
        if self._is_done(agent_queue, event.id, arrived.seq):
            return
        self._hot.add(event.id)
        trace = trace_id(event.traceparent)
        with bound_contextvars(agent_id=event.agent, action_id=event.action_id, trace_id=trace):
            await self._try(agent_queue, arrived, event)
        self._consumer_position.remember(event.id)
        self._hot.discard(event.id)

    async def _try(self, agent_queue: AgentQueue, arrived: ReceivedEvent, event: Event) -> None:
        """Handle it, with retries, or publish its dead letter."""
        failed, agent_queue.failed = agent_queue.failed, None
        tries, most = 1, self.spec.tries
        while tries <= most:
            try:
                if failed is not None:
                    raise failed
                await self._handle(agent_queue, event, arrived.seq)
                self._log.debug("consumer.handled", fact=event.TYPE, seq=arrived.seq)
                break
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                if isinstance(error, ContractViolationError):
                    most = tries  # it is the event that is wrong
                failed = None
                await self._stumbled(error, arrived.seq, tries, most)
                tries += 1
        else:
            held = agent_queue.held
            before = (
                StateBeforeEvent(agent_queue.agent, held.state, held.seq, self._stream.epoch)
                if held is not None
                else None
            )
            await self._be_sure()
            await self._output.give_up(arrived.delivery, self._why, most, before)

    async def _stumbled(self, error: BaseException, seq: int, tries: int, most: int) -> None:
        """Count a try that failed, and wait for the next one. Raises what is no failure of the handler."""
        if isinstance(error, BusError | UnreadableStateError) or _cancelled(error):
            raise error
        self.tally.failures += 1
        self._why = f"{type(error).__name__}: {error}"
        if tries < most:
            self._log.warning("consumer.retried", seq=seq, tries=tries, error=self._why)
            await asyncio.sleep(self._backoff.after(tries))

    async def _handle(self, agent_queue: AgentQueue, event: Event, seq: int) -> None:
        await self._be_sure()
        if self.spec.state is None:
            facts = await _awaited(self.spec.handle([event] if self.spec.batch else event))
            await self._be_sure()
            await self._output.publish(self._output.messages(facts))
        else:
            assert agent_queue.held is not None
            result = self.spec.folded(await _awaited(self.spec.handle(agent_queue.held.state, event)))
            await self._be_sure()
            state = await self._output.conclude(agent_queue.held.state, event, result)
            agent_queue.held.state, agent_queue.held.seq = state, seq
        self.tally.handled += 1

    # -- publishing --------------------------------------------------------------------------------------------------

    def _fly(self, in_flight: _InFlightBatch) -> None:
        if in_flight.messages:
            self._in_flight_batches[in_flight] = self._start("publish", self._land(in_flight))
        else:
            self._remember(in_flight)

    async def _land(self, in_flight: _InFlightBatch) -> None:
        await self._be_sure()
        await self._output.publish(in_flight.messages)
        self._remember(in_flight)
        del self._in_flight_batches[in_flight]
        self._room.set()

    async def _be_sure(self) -> None:
        """Check that the partitions were not taken while this process was suspended: two workers would publish the
        same. Raises FencedError."""
        async with self._looking:
            now = uptime()  # before the request: this process may be suspended before it reads the answer
            if now - self._sure > SURE_SECONDS:
                if not await self._consumer_position.is_held():
                    raise FencedError(f"another copy of {self.spec.name} has taken over from this one; this one stops")
                self._sure = now

    async def _landed(self) -> bool:
        """Wait until what is handled as of now is published; whether it all was."""
        in_flight_batches = list(self._in_flight_batches.values())
        if in_flight_batches:
            await asyncio.wait(in_flight_batches)
        return not any(task.cancelled() or task.exception() for task in in_flight_batches)

    def _remember(self, in_flight: _InFlightBatch) -> None:
        for id in in_flight.ids:
            self._consumer_position.remember(id)
        self._hot.difference_update(in_flight.ids)

    # -- writing down ------------------------------------------------------------------------------------------------

    @property
    def handled(self) -> int:
        """Everything up to this sequence is handled, and what followed from it is published."""
        open_ = [in_flight.first for in_flight in self._in_flight_batches]
        open_ += [agent_queue.queue[0].seq for agent_queue in self._busy.values() if agent_queue.queue]
        if open_:
            return min(open_) - 1
        if self._subscription is None or self._subscription.given > self._dealt:
            return self._dealt
        return self._subscription.seen

    async def _snapshots(self, over: asyncio.Event) -> None:
        pause = SNAPSHOT_SECONDS
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await over.wait()
                    return
            began = time.monotonic()
            await self._snapshot()
            took = time.monotonic() - began
            pause = max(SNAPSHOT_SECONDS, min(took / SNAPSHOT_SHARE, SNAPSHOT_LONGEST))

    async def _snapshot(self) -> None:
        """States first, then the position: it must not lead them."""
        async with self._writing:
            # All as of now: the queues go on while they are written. A state may include events whose results are still
            # being
            # published; it is written once those have arrived.
            done, recent = self.handled, list(self._consumer_position.recent)
            if done <= self._consumer_position.seq:
                return
            states = [
                (agent_queue.agent, held, held.state, held.seq)
                for agent_queue in self._agent_queues.values()
                if (held := agent_queue.held) is not None and held.seq != held.saved
            ]
            if states and not await self._landed():
                return
            try:
                for first in range(0, len(states), STATES_AT_ONCE):
                    await asyncio.gather(*(self._save(*one) for one in states[first : first + STATES_AT_ONCE]))
            except FencedError:
                if await self._consumer_position.is_held():
                    raise _OvertakenError(
                        f"a state of {self.spec.name} was written by another copy meanwhile"
                    ) from None
                raise
            now = uptime()
            await self._consumer_position.save(done, recent)
            self._sure = now
            if len(self._agent_queues) > MAX_AGENT_QUEUES:
                self._forget_agent_queues()

    def _forget_agent_queues(self) -> None:
        """Forget dormant agents' queues: agent names are unbounded. Their states are stored, and loaded when needed."""
        for agent, agent_queue in tuple(self._agent_queues.items()):
            resting = not agent_queue.queue and agent_queue.worker is None and not agent_queue.free.locked()
            if resting and (agent_queue.held is None or agent_queue.held.seq == agent_queue.held.saved):
                del self._agent_queues[agent]

    async def _save(self, agent: str, held: FoldState, state: Any, seq: int) -> None:
        await save_state(self._bus, self.spec, agent, held, state, seq, self._stream.epoch)

    # -- dead letters, once more -------------------------------------------------------------------------------------

    async def _asked_to_retry(self, _subject: str, data: bytes) -> bytes:
        return await answer_retry(self.retry, data)

    async def retry_alone(self, seq: int) -> None:
        """`retry` of a runtime that does not run. No other copy of the consumer may run meanwhile."""
        self._stream = await self._bus.state()
        await self.retry(seq)

    async def retry(self, seq: int) -> None:
        """Handle a dead letter once more; raises what the handler raises.

        A fold is rebuilt from the state before the dead letter: later events are folded again, and what they published
        is not published twice.
        """
        event = await dead(self._bus, seq)
        agent_queue = self._agent_queue(event.agent)
        async with agent_queue.free:
            if self.spec.state is None:
                await self._handle(agent_queue, event, seq)
                return
            await self._landed()
            held = agent_queue.held or await load_state(self._bus, self.spec, agent_queue.agent, self._stream)
            rebuilding = StateRebuild(self._bus, self.spec, self._output, agent_queue.agent, self._stream.epoch)
            state, upto = await rebuilding.run(seq, upto=max(held.seq, seq))
            async with self._writing:
                agent_queue.held, held.state, held.seq, held.saved = held, state, upto, -1
                await self._save(agent_queue.agent, held, state, upto)


async def _awaited(result: Any) -> Any:
    """The result of a handler, awaited where it is awaitable."""
    return await result if inspect.isawaitable(result) else result


def control_of(consumer: str, holder: str) -> str:
    """The subject on which the owner of a partition of a consumer is asked to handle a dead letter once more."""
    return f"conch.ctl._consumer.{consumer}.{holder}.retry"


class _OvertakenError(FencedError):
    """The copy that we took over from wrote a state after we had read it: load state and position again. The position
    too: a worker with only its own `recent` would skip events that the state it reads lacks."""


def _cancelled(error: BaseException) -> bool:
    """Whether it is this task that is being cancelled, and not something that the handler waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

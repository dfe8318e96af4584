"""The runtime of one consumer: decode, handle, publish, write down; in that order, so that a crash repeats work and
never loses it.

Events are handled as they come, a batch at a time, and what follows from a batch is published in one piece while the
next is handled. An agent's events keep their order: behind one that fails, or takes its time, the others of that agent
wait in its lane, and nobody else. Where a consumer takes events side by side, what follows from each is published as
soon as it is there, and the position stays before the first that is still in hand. Position and states are written once
a second and at the end: what a crash makes it read again gives the same ids, and what it finds on the stream already it
does not publish again.
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

import structlog
from structlog.contextvars import bound_contextvars

from conch.bus import Arrived, Feed, Message, Tap
from conch.consumer.group.position import EVERYTHING, Place, take_place
from conch.consumer.runtime.dead_letters import answer_retry
from conch.consumer.runtime.output import Before, Output, Tally
from conch.consumer.runtime.queues import Lane
from conch.consumer.runtime.replay import Rebuilding, dead
from conch.consumer.runtime.state import Held, UnreadableStateError, load_state, save_state
from conch.consumer.spec import ConsumerSpec
from conch.errors import BusError, ConchError, FencedError
from conch.telemetry import handling
from conch.uptime import uptime
from conch_schemas import ContractViolationError, Event, trace_id

log = structlog.get_logger(__name__)

RETRY_SECONDS = (0.1, 0.5, 2.0, 8.0)
"""Waits between the tries of a failing event; the last one again and again if there are more."""
BATCH = 256
"""Events taken at a time, where the consumer names no other number."""
FLIGHTS = 4
"""Batches handled and not yet published, where the consumer names no other number; more wait on the stream."""
PARKED = 1024
"""Events that wait in lanes, of all agents; more wait on the stream."""
SNAPSHOT_SECONDS = 1.0
"""Time between two writings of position and states: the most work that a crash repeats."""
SNAPSHOT_SHARE, SNAPSHOT_LONGEST = 0.05, 30.0
"""Most of the time that may be spent on it: with many agents it is done more seldom, in seconds at most so seldom."""
LANES = 10_000
"""Agents that are known at once, and the states of folds with them."""
SURE_SECONDS = 5.0
"""How long a place is taken for ours without a look: as long as others wait before they take it."""
STATES_AT_ONCE = 64
"""States that are on their way to the bucket."""


@dataclass(eq=False)
class _Flight:
    """A batch that is handled: what followed from it is being published. Or an event that is in hand beside others."""

    first: int
    ids: list[str]
    """Of the events that were handled."""
    messages: list[Message]


class ConsumerRuntime:
    """Runs one consumer on a feed, where its place says; `place` None: of all agents, taken from whoever holds it."""

    def __init__(
        self,
        feed: Feed,
        spec: ConsumerSpec,
        *,
        place: Place | None = None,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        self.spec, self.tally = spec, Tally()
        self._feed, self._bus, self._retry_seconds = feed, feed.bus, retry_seconds
        self._given = place
        self._tap: Tap | None = None
        self._lanes: dict[str, Lane] = {}
        self._busy: dict[str, Lane] = {}
        """Lanes in which events wait."""
        self._flights: dict[_Flight, asyncio.Task[None]] = {}
        self._hot: set[str] = set()
        """Ids of what is handled, and not yet published."""
        self._parked = self._dealt = 0
        self._sure = math.inf
        """When the place was last known to be ours, by `uptime`; of one that does not run, always."""
        self._looking = asyncio.Lock()
        """In turn: what waits for a look first is published first."""
        self._getting = self._stopping = False
        self._slow = inspect.iscoroutinefunction(spec.handle)
        self._room = asyncio.Event()
        self._output = Output(feed, spec, self.tally)
        self._writing = asyncio.Lock()
        """Held by whoever writes states or the position: crossed, our own writes would look like another copy's."""
        self._log = log.bind(consumer=spec.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: then what is in hand is finished and written down.

        Raises FencedError when another copy took over, or wrote a state after this one had read it and the place was
        given: it is to be taken anew. Raises ContractError for a position or state that cannot be read, BusError when
        the bus refuses for good. Cancelled, it lets go at once; the next run does again what was not written down.
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
        self._log.info("consumer.stopped", at=self._place.seq, **vars(self.tally))

    async def _run(self, stop: asyncio.Event) -> None:
        for waiting in (self._lanes, self._busy, self._flights, self._hot):
            waiting.clear()
        self._parked, self._stopping = 0, False
        self._stream = await self._bus.state()
        self._place = self._given or await take_place(self._bus, self.spec)
        self._highest = max(self._place.floors.values())
        self._dealt = self._place.seq
        self._sure = uptime()
        await self._output.look(self._place.seq)
        mine = self._place.holds if len(self._place.floors) < len(EVERYTHING) else None
        async with (
            self._feed.tap(self.spec.kinds, after=self._place.seq, mine=mine) as self._tap,
            self._bus.serve(control_of(self.spec.name, self._place.holder), self._asked_to_retry),
        ):
            self._log.info("consumer.started", after=self._place.seq)
            async with asyncio.TaskGroup() as self._group:
                over = asyncio.Event()
                self._start("snapshots", self._snapshots(over))
                dealing = self._start("deal", self._deal(self._tap))
                await stop.wait()
                self._stopping = True
                if self._getting:
                    dealing.cancel()  # what was taken and not dealt out comes again: the position does not pass it
                await asyncio.wait([dealing])
                await self._finish_in_hand()
                over.set()
            await self._snapshot()
            await self._place.let_go()

    def _start(self, name: str, work: Any) -> asyncio.Task[None]:
        return self._group.create_task(work, name=f"conch.{self.spec.name}.{name}")

    async def _finish_in_hand(self) -> None:
        while at_work := [*self._flights.values(), *(lane.worker for lane in self._busy.values() if lane.worker)]:
            await asyncio.wait(at_work)

    # -- taking and handling -----------------------------------------------------------------------------------------

    async def _deal(self, tap: Tap) -> None:
        while await self._may_take():
            self._getting = True
            beside = self.spec.at_once - len(self._flights) if self.spec.at_once else BATCH
            most = min(self.spec.batch or beside, PARKED - self._parked)
            arrivals = await tap.get(most)
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
        while len(self._flights) >= (self.spec.at_once or FLIGHTS) or self._parked >= PARKED:
            self._room.clear()
            await self._room.wait()
        return not self._stopping

    async def _take_each(self, arrivals: Sequence[Arrived]) -> None:
        """Handle what can be handled now, in order; the rest waits in the lanes."""
        if self.spec.state is not None:
            await self._load_states(arrivals)
        # Nothing is waited for from here to the flight: a state must not be written before what it has said is known.
        flight = _Flight(arrivals[0].seq, [], [])
        for arrived in arrivals:
            if self._is_below(arrived):
                continue
            lane = self._lane(arrived.agent)
            unread = self.spec.state is not None and lane.held is None  # while others were read its lane was let go of
            if self._slow or unread or lane.worker is not None or lane.free.locked() or not arrived.is_event:
                self._park(lane, arrived)
                continue
            try:
                self._handle_now(lane, arrived.event, arrived.seq, flight)
            except (Exception, SystemExit) as error:
                lane.failed = error
                self._park(lane, arrived)
        handling.set(None)
        self._fly(flight)

    def _is_below(self, arrived: Arrived) -> bool:
        """Whether it was handled before its partition was ours: the others' places may lie further back."""
        return arrived.seq <= self._highest and arrived.seq <= self._place.floor(arrived.agent)

    async def _load_states(self, arrivals: Sequence[Arrived]) -> None:
        for agent in {arrived.agent for arrived in arrivals}:
            lane = self._lane(agent)
            if lane.held is None:
                lane.held = await load_state(self._bus, self.spec, agent, self._stream)

    def _handle_now(self, lane: Lane, event: Event, seq: int, flight: _Flight) -> None:
        """Handle one event on the spot. Whatever this raises, nothing has changed: it is tried again in its lane."""
        if self._is_done(lane, event.id, seq):
            return
        handling.set(event)
        if self.spec.state is None:
            flight.messages += self._output.messages(self.spec.handle(event))
        else:
            assert lane.held is not None
            state, facts = self.spec.folded(self.spec.handle(lane.held.state, event))
            flight.messages += self._output.messages(facts)
            lane.held.state, lane.held.seq = state, seq
        self._log.debug("consumer.handled", fact=event.TYPE, seq=seq)
        self._hot.add(event.id)
        flight.ids.append(event.id)
        self.tally.handled += 1

    def _is_done(self, lane: Lane, id: str, seq: int) -> bool:
        """Whether this event was handled before, here or in a state that was written after the position."""
        if id in self._place.recent or id in self._hot:
            self.tally.duplicates += 1
            return True
        return lane.held is not None and seq <= lane.held.seq

    async def _take_together(self, arrivals: Sequence[Arrived]) -> None:
        """Hand a whole batch to the consumer. Where that fails to the last, each event by itself tells which it is."""
        taken: dict[str, tuple[Arrived, Event]] = {}
        for arrived in arrivals:
            if self._is_below(arrived):
                continue
            try:
                event = arrived.event
            except ContractViolationError as error:
                await self._output.give_up(arrived.delivery, str(error), 0)
                continue
            if event.id in taken or self._is_done(self._lane(arrived.agent), event.id, arrived.seq):
                self.tally.duplicates += event.id in taken
            else:
                taken[event.id] = arrived, event
        flight = _Flight(arrivals[0].seq, list(taken), [])
        if taken and not await self._handled_together(list(taken.values()), flight):
            for arrived, event in taken.values():
                if not await self._handled_together([(arrived, event)], flight, tries=1):
                    await self._output.give_up(arrived.delivery, self._why, self.spec.tries)
        self._hot |= set(flight.ids)
        self._fly(flight)

    async def _handled_together(self, taken: Sequence[tuple[Arrived, Event]], flight: _Flight, tries: int = 0) -> bool:
        for number in range(1, (tries or self.spec.tries) + 1):
            try:
                facts = await _awaited(self.spec.handle([event for _, event in taken]))
                flight.messages += self._output.messages(facts)
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

    async def _take_apart(self, arrivals: Sequence[Arrived]) -> None:
        """Begin with each, in their order, and wait for none."""
        await self._be_sure()  # here for all: no task then waits before its handler, so those begin in this order
        for arrived in arrivals:
            if not self._is_below(arrived):
                flight = _Flight(arrived.seq, [], [])
                self._flights[flight] = self._start(f"event{arrived.seq}", self._see_through(arrived, flight))

    async def _see_through(self, arrived: Arrived, flight: _Flight) -> None:
        await self._settle(Lane(arrived.agent), arrived)
        del self._flights[flight]
        self._room.set()

    # -- in lanes ----------------------------------------------------------------------------------------------------

    def _lane(self, agent: str) -> Lane:
        lane = self._lanes.get(agent)
        if lane is None:
            lane = self._lanes[agent] = Lane(agent)
        return lane

    def _park(self, lane: Lane, arrived: Arrived) -> None:
        lane.queue.append(arrived)
        self._parked += 1
        self._busy[lane.agent] = lane
        if lane.worker is None:
            lane.worker = self._start(lane.agent, self._empty(lane))

    async def _empty(self, lane: Lane) -> None:
        while lane.queue:
            async with lane.free:
                await self._settle(lane, lane.queue[0])
            lane.queue.popleft()
            self._parked -= 1
            self._room.set()
        lane.worker = None
        del self._busy[lane.agent]

    async def _settle(self, lane: Lane, arrived: Arrived) -> None:
        """Handle one event to its end: done, a duplicate, or a dead letter."""
        handling.set(None)  # the lane's task began while another event was handled
        try:
            event = arrived.event
        except ContractViolationError as error:
            await self._output.give_up(arrived.delivery, str(error), 0)
            return
        if self.spec.state is not None and lane.held is None:
            lane.held = await load_state(self._bus, self.spec, lane.agent, self._stream)
        if self._is_done(lane, event.id, arrived.seq):
            return
        self._hot.add(event.id)
        trace = trace_id(event.traceparent)
        with bound_contextvars(agent_id=event.agent, action_id=event.action_id, trace_id=trace):
            await self._try(lane, arrived, event)
        self._place.remember(event.id)
        self._hot.discard(event.id)

    async def _try(self, lane: Lane, arrived: Arrived, event: Event) -> None:
        """Handle it, as often as it takes, or write its dead letter."""
        failed, lane.failed = lane.failed, None
        tries, most = 1, self.spec.tries
        while tries <= most:
            try:
                if failed is not None:
                    raise failed
                await self._handle(lane, event, arrived.seq)
                self._log.debug("consumer.handled", fact=event.TYPE, seq=arrived.seq)
                break
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                if isinstance(error, ContractViolationError):
                    most = tries  # it is the event that is wrong
                failed = None
                await self._stumbled(error, arrived.seq, tries, most)
                tries += 1
        else:
            held = lane.held
            before = Before(lane.agent, held.state, held.seq, self._stream.epoch) if held is not None else None
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
            await asyncio.sleep(self._retry_seconds[min(tries, len(self._retry_seconds)) - 1])

    async def _handle(self, lane: Lane, event: Event, seq: int) -> None:
        await self._be_sure()
        if self.spec.state is None:
            facts = await _awaited(self.spec.handle([event] if self.spec.batch else event))
            await self._be_sure()
            await self._output.publish(self._output.messages(facts))
        else:
            assert lane.held is not None
            result = self.spec.folded(await _awaited(self.spec.handle(lane.held.state, event)))
            await self._be_sure()
            state = await self._output.conclude(lane.held.state, event, result)
            lane.held.state, lane.held.seq = state, seq
        self.tally.handled += 1

    # -- publishing --------------------------------------------------------------------------------------------------

    def _fly(self, flight: _Flight) -> None:
        if flight.messages:
            self._flights[flight] = self._start("publish", self._land(flight))
        else:
            self._remember(flight)

    async def _land(self, flight: _Flight) -> None:
        await self._be_sure()
        await self._output.publish(flight.messages)
        self._remember(flight)
        del self._flights[flight]
        self._room.set()

    async def _be_sure(self) -> None:
        """That its place was not taken while this process stood still: two would say the same. Raises FencedError."""
        async with self._looking:
            now = uptime()  # not once it is answered: this process may stand still before it reads the answer
            if now - self._sure > SURE_SECONDS:
                if not await self._place.is_held():
                    raise FencedError(f"another copy of {self.spec.name} has taken over from this one; this one stops")
                self._sure = now

    async def _landed(self) -> bool:
        """Wait until what is handled as of now is published; whether it all was."""
        flights = list(self._flights.values())
        if flights:
            await asyncio.wait(flights)
        return not any(task.cancelled() or task.exception() for task in flights)

    def _remember(self, flight: _Flight) -> None:
        for id in flight.ids:
            self._place.remember(id)
        self._hot.difference_update(flight.ids)

    # -- writing down ------------------------------------------------------------------------------------------------

    @property
    def handled(self) -> int:
        """Everything up to this sequence is handled, and what followed from it is published."""
        open_ = [flight.first for flight in self._flights]
        open_ += [lane.queue[0].seq for lane in self._busy.values() if lane.queue]
        if open_:
            return min(open_) - 1
        if self._tap is None or self._tap.given > self._dealt:
            return self._dealt
        return self._tap.seen

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
            # All as of now: while they are written lanes go on. A state may hold events whose facts are on their way;
            # it is written once those have arrived.
            done, recent = self.handled, list(self._place.recent)
            if done <= self._place.seq:
                return
            states = [
                (lane.agent, held, held.state, held.seq)
                for lane in self._lanes.values()
                if (held := lane.held) is not None and held.seq != held.saved
            ]
            if states and not await self._landed():
                return
            try:
                for first in range(0, len(states), STATES_AT_ONCE):
                    await asyncio.gather(*(self._save(*one) for one in states[first : first + STATES_AT_ONCE]))
            except FencedError:
                if await self._place.is_held():
                    raise _OvertakenError(
                        f"a state of {self.spec.name} was written by another copy meanwhile"
                    ) from None
                raise
            now = uptime()
            await self._place.save(done, recent)
            self._sure = now
            if len(self._lanes) > LANES:
                self._forget_lanes()

    def _forget_lanes(self) -> None:
        """Of agents that rest: a name is anybody's to invent. Their states are written and read again when needed."""
        for agent, lane in tuple(self._lanes.items()):
            resting = not lane.queue and lane.worker is None and not lane.free.locked()
            if resting and (lane.held is None or lane.held.seq == lane.held.saved):
                del self._lanes[agent]

    async def _save(self, agent: str, held: Held, state: Any, seq: int) -> None:
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

        A fold is rebuilt from the state before the letter: what came after it is folded again, and what was published
        then is not published twice.
        """
        event = await dead(self._bus, seq)
        lane = self._lane(event.agent)
        async with lane.free:
            if self.spec.state is None:
                await self._handle(lane, event, seq)
                return
            await self._landed()
            held = lane.held or await load_state(self._bus, self.spec, lane.agent, self._stream)
            rebuilding = Rebuilding(self._bus, self.spec, self._output, lane.agent, self._stream.epoch)
            state, upto = await rebuilding.run(seq, upto=max(held.seq, seq))
            async with self._writing:
                lane.held, held.state, held.seq, held.saved = held, state, upto, -1
                await self._save(lane.agent, held, state, upto)


async def _awaited(result: Any) -> Any:
    """What a handler returned, once it is there."""
    return await result if inspect.isawaitable(result) else result


def control_of(consumer: str, holder: str) -> str:
    """The subject on which whoever holds a partition of a consumer is asked to handle a dead letter once more."""
    return f"conch.ctl._consumer.{consumer}.{holder}.retry"


class _OvertakenError(FencedError):
    """The copy that we took over from wrote a state after we had read it: begin again from what is written. With the
    place as it is written, too: whoever keeps its own `recent` passes over what the state that it reads lacks."""


def _cancelled(error: BaseException) -> bool:
    """Whether it is this task that is being cancelled, and not something that the handler waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

"""The runtime of one consumer: decode, handle, publish, store the position; in that order, so that a crash repeats work
and never loses it.

Events are handled as they come, a batch at a time, and what follows from a batch is published in one piece while the
next is handled. An agent's events keep their order: behind one that fails, or takes its time, the other events of that
agent wait in its queue; other agents do not wait. Where a consumer handles events concurrently, what follows from each
is published as soon as it is there, and the position stays before the first that is still in hand. Position and states
are stored once a second, those of many agents more seldom, and at the end: events read again after a crash give the
same ids, and what is on the stream already is not published again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from conch.bus import ReceivedEvent, SharedSubscription, StreamSubscription
from conch.consumer.group.position import EVERYTHING, ConsumerPosition, take_position
from conch.consumer.runtime.attempts import Attempts
from conch.consumer.runtime.batches import Batches
from conch.consumer.runtime.breaker import ConsumerBreaker
from conch.consumer.runtime.concurrent import Concurrent
from conch.consumer.runtime.context import RuntimeContext
from conch.consumer.runtime.dead_letters import answer_retry
from conch.consumer.runtime.in_flight import InFlightBatches
from conch.consumer.runtime.inline import Inline
from conch.consumer.runtime.queues import AgentQueues
from conch.consumer.runtime.replay import DeadLetterReplay
from conch.consumer.runtime.snapshots import OvertakenError, Snapshots
from conch.consumer.spec import ConsumerSpec
from conch.log import get_logger
from conch.retry import EVENT, Backoff, CircuitBreaker
from conch.tasks import ungrouped

log = get_logger(__name__)

BATCH = 256
"""Events taken at a time, where the consumer names no other number."""
MAX_IN_FLIGHT = 4
"""Batches handled and not yet published, where the consumer names no other number; more wait on the stream."""
ENQUEUED = 1024
"""Events that wait in lanes, of all agents; more wait on the stream."""


class Strategy(Protocol):
    """A way of handling what the loop reads."""

    async def take(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Handle these, or begin to: what is not finished at the return is in flight or enqueued. Not empty.

        Raises FencedError when another copy has taken over, BusError when the bus refuses.
        """


class ConsumerRuntime:
    """Runs one consumer on a shared subscription, from its position.

    `consumer_position` None: the position of all agents, taken over from its owner. `breaker` None: an event gets all
    its tries, however many before it failed.
    """

    def __init__(
        self,
        shared_events: SharedSubscription,
        spec: ConsumerSpec,
        *,
        consumer_position: ConsumerPosition | None = None,
        backoff: Backoff = EVENT,
        breaker: ConsumerBreaker | None = None,
    ) -> None:
        breaker = breaker or ConsumerBreaker(spec.name, CircuitBreaker(0))
        self._context = context = RuntimeContext(shared_events, spec, breaker)
        self.spec, self.tally = spec, context.tally
        self._shared_events, self._bus = shared_events, shared_events.bus
        self._given = consumer_position
        self._subscription: StreamSubscription | None = None
        self._dealt = 0
        self._getting = self._stopping = False
        attempts = Attempts(context, backoff)
        self._in_flight_batches = InFlightBatches(context)
        self._queues = AgentQueues(context, attempts)
        self._strategy: Strategy
        if spec.at_once:
            self._strategy = Concurrent(context, self._in_flight_batches, attempts)
        elif spec.batch:
            self._strategy = Batches(context, self._in_flight_batches, attempts)
        else:
            self._strategy = Inline(context, self._in_flight_batches, self._queues)
        self._snapshots = Snapshots(context, self._in_flight_batches, lambda: self.handled)
        self._replay = DeadLetterReplay(context, self._in_flight_batches, attempts)
        self._log = log.bind(consumer=spec.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Handle events until `stop` is set; then events in hand are finished and the position is stored.

        Raises FencedError when another copy took over, or wrote a state after this one had read it and the position was
        given: it has to be loaded anew. Raises ContractError for a position or state that cannot be read, BusError when
        the bus refuses for good. Cancelled, it ends at once; the next run repeats what was not stored.
        """
        while True:
            try:
                with ungrouped():
                    await self._run(stop)
                break
            except OvertakenError:
                if self._given is not None:
                    raise
                self._log.info("consumer.begins_again")
        self._log.info("consumer.stopped", at=self._context.position.seq, **vars(self.tally))

    async def _run(self, stop: asyncio.Event) -> None:
        context = self._context
        for held in (context, self._queues, self._in_flight_batches):
            held.clear()
        self._stopping = False
        context.stream = await self._bus.state()
        position = self._given or await take_position(self._bus, self.spec)
        context.begin(position)
        self._dealt = position.seq
        await context.output.look(position.seq)
        mine = position.holds if len(position.floors) < len(EVERYTHING) else None
        async with (
            self._shared_events.subscribe(self.spec.kinds, after=position.seq, mine=mine) as self._subscription,
            self._bus.serve(control_of(self.spec.name, position.holder), self._asked_to_retry),
        ):
            self._log.info("consumer.started", after=position.seq)
            async with asyncio.TaskGroup() as context.group:
                over = asyncio.Event()
                context.start("snapshots", self._snapshots.keep_writing(over))
                dealing = context.start("deal", self._dispatch(self._subscription))
                await stop.wait()
                self._stopping = True
                if self._getting:
                    dealing.cancel()  # what was taken and not dealt out comes again: the position does not pass it
                await asyncio.wait([dealing])
                await self._finish_in_hand()
                over.set()
            await self._snapshots.write()
            await position.let_go()

    async def _finish_in_hand(self) -> None:
        while at_work := [
            *self._in_flight_batches.tasks(),
            *(agent_queue.worker for agent_queue in self._queues.busy.values() if agent_queue.worker),
        ]:
            await asyncio.wait(at_work)

    async def _dispatch(self, subscription: StreamSubscription) -> None:
        while await self._may_take():
            self._getting = True
            beside = self.spec.at_once - len(self._in_flight_batches) if self.spec.at_once else BATCH
            most = min(self.spec.batch or beside, ENQUEUED - self._queues.enqueued)
            arrivals = await subscription.get(most)
            self._getting = False
            if self.spec.linger and len(arrivals) < most:  # where more waits already, to wait would be to fall behind
                await asyncio.sleep(self.spec.linger)
                arrivals = [*arrivals, *subscription.more(most - len(arrivals))]
            await self._strategy.take(arrivals)
            self._dealt = arrivals[-1].seq

    async def _may_take(self) -> bool:
        """Wait until there is room; whether more is to be taken then."""
        most, room = self.spec.at_once or MAX_IN_FLIGHT, self._context.room
        while len(self._in_flight_batches) >= most or self._queues.enqueued >= ENQUEUED:
            room.clear()
            await room.wait()
        return not self._stopping

    @property
    def handled(self) -> int:
        """Everything up to this sequence is handled, and what followed from it is published."""
        open_ = self._in_flight_batches.firsts() + self._queues.firsts()
        if open_:
            return min(open_) - 1
        if self._subscription is None or self._subscription.given > self._dealt:
            return self._dealt
        return self._subscription.seen

    async def _asked_to_retry(self, _subject: str, data: bytes) -> bytes:
        return await answer_retry(self.retry, data)

    async def retry_alone(self, seq: int) -> None:
        """`retry` of a runtime that does not run. No other copy of the consumer may run meanwhile."""
        self._context.stream = await self._bus.state()
        await self.retry(seq)

    async def retry(self, seq: int) -> None:
        """Handle a dead letter once more; raises what the handler raises.

        A fold is rebuilt from the state before the dead letter: later events are folded again, and what they published
        is not published twice.
        """
        await self._replay.retry(seq)


def control_of(consumer: str, holder: str) -> str:
    """The subject on which the owner of a partition of a consumer is asked to handle a dead letter once more."""
    return f"conch.ctl._consumer.{consumer}.{holder}.retry"

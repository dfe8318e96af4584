"""Events handled one by one, as they come."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from conch.bus import ReceivedEvent
from conch.consumer.runtime.context import AgentQueue, RuntimeContext
from conch.consumer.runtime.in_flight import InFlightBatch, InFlightBatches
from conch.consumer.runtime.queues import AgentQueues
from conch.telemetry import handling
from conch_schemas import Event


class Inline:
    """Handles on the spot what can be, in order; the rest waits in the agents' queues."""

    def __init__(self, context: RuntimeContext, in_flight_batches: InFlightBatches, queues: AgentQueues) -> None:
        self._context, self._spec = context, context.spec
        self._in_flight_batches, self._queues = in_flight_batches, queues
        self._slow = inspect.iscoroutinefunction(context.spec.handle)

    async def take(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Handle what can be handled now, in order; the rest waits in the queues."""
        context, is_fold = self._context, self._spec.state is not None
        if is_fold:
            await self._load_states(arrivals)
        # Nothing is waited for from here to the flight: a state must not be written before what it has said is known.
        in_flight = InFlightBatch(arrivals[0].seq, [], [])
        for arrived in arrivals:
            if context.is_below(arrived):
                continue
            agent_queue = context.agent_queue(arrived.agent)
            unread = is_fold and agent_queue.held is None  # while others were read its lane was let go of
            if (
                self._slow
                or unread
                or agent_queue.worker is not None
                or agent_queue.free.locked()
                or not arrived.is_event
                or context.breaker.is_open
                or self._may_be_published(arrived)
            ):
                self._queues.enqueue(agent_queue, arrived)
                continue
            try:
                self._handle_now(agent_queue, arrived.event, arrived.seq, in_flight)
            except (Exception, SystemExit) as error:
                agent_queue.failed = error
                self._queues.enqueue(agent_queue, arrived)
        handling.set(None)
        self._in_flight_batches.publish(in_flight)

    def _may_be_published(self, arrived: ReceivedEvent) -> bool:
        """Whether an earlier run may have published another fact of the event, which the state has to follow: its lane
        looks for one."""
        return self._spec.again is not None and arrived.seq <= self._context.output.known_upto

    async def _load_states(self, arrivals: Sequence[ReceivedEvent]) -> None:
        for agent in {arrived.agent for arrived in arrivals}:
            agent_queue = self._context.agent_queue(agent)
            if agent_queue.held is None:
                agent_queue.held = await self._context.load(agent)

    def _handle_now(self, agent_queue: AgentQueue, event: Event, seq: int, in_flight: InFlightBatch) -> None:
        """Handle one event on the spot. Whatever this raises, nothing has changed: it is tried again in its lane."""
        context, spec = self._context, self._spec
        if context.is_done(agent_queue, event.id, seq):
            return
        handling.set(event)
        if spec.state is None:
            in_flight.messages += context.output.messages(spec.handle(event))
        else:
            assert agent_queue.held is not None
            state, facts = spec.folded(spec.handle(agent_queue.held.state, event))
            in_flight.messages += context.output.messages(facts)
            agent_queue.held.state, agent_queue.held.seq = state, seq
        context.log.debug("consumer.handled", fact=event.TYPE, seq=seq)
        context.breaker.succeeded()
        context.hot.add(event.id)
        in_flight.ids.append(event.id)
        context.tally.handled += 1

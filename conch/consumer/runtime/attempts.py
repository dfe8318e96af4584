"""One event handled to its end: done, a duplicate, or a dead letter."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from structlog.contextvars import bound_contextvars

from conch.bus import ReceivedEvent
from conch.consumer.runtime.context import AgentQueue, RuntimeContext
from conch.consumer.runtime.output import StateBeforeEvent
from conch.consumer.runtime.state import UnreadableStateError
from conch.errors import BusError
from conch.retry import Backoff
from conch.telemetry import handling
from conch_schemas import ContractViolationError, Event, trace_id


class Attempts:
    """Handles an event, again with back-off where that fails, and publishes what follows from it."""

    def __init__(self, context: RuntimeContext, backoff: Backoff) -> None:
        self._context, self._spec, self._backoff = context, context.spec, backoff

    async def settle(self, agent_queue: AgentQueue, arrived: ReceivedEvent) -> None:
        """Handle one event to its end: done, a duplicate, or a dead letter."""
        context = self._context
        handling.set(None)  # the lane's task began while another event was handled
        try:
            event = arrived.event
        except ContractViolationError as error:
            await context.output.give_up(arrived.delivery, str(error), 0)
            return
        if self._spec.state is not None and agent_queue.held is None:
            agent_queue.held = await context.load(agent_queue.agent)
        if context.is_done(agent_queue, event.id, arrived.seq):
            return
        context.hot.add(event.id)
        trace = trace_id(event.traceparent)
        with bound_contextvars(agent_id=event.agent, action_id=event.action_id, trace_id=trace):
            await self._try(agent_queue, arrived, event)
        context.position.remember(event.id)
        context.hot.discard(event.id)

    async def _try(self, agent_queue: AgentQueue, arrived: ReceivedEvent, event: Event) -> None:
        """Handle it, as often as it takes, or write its dead letter."""
        failed, agent_queue.failed = agent_queue.failed, None
        breaker = self._context.breaker
        tries, most, why = 1, breaker.tries(self._spec.tries), breaker.why
        while tries <= most:
            try:
                if failed is not None:
                    raise failed
                await self.handle(agent_queue, event, arrived.seq)
                self._context.log.debug("consumer.handled", fact=event.TYPE, seq=arrived.seq)
                breaker.succeeded()
                break
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                if isinstance(error, ContractViolationError):
                    most = tries  # it is the event that is wrong
                failed = None
                why = await self.stumbled(error, arrived.seq, tries, most)
                tries += 1
                if breaker.is_open:
                    most = min(most, tries - 1)
        else:
            held = agent_queue.held
            before = (
                StateBeforeEvent(agent_queue.agent, held.state, held.seq, self._context.stream.epoch)
                if held is not None
                else None
            )
            breaker.gave_up()
            await self._context.ownership.ensure()
            await self._context.output.give_up(arrived.delivery, why, tries - 1, before)

    async def stumbled(self, error: BaseException, seq: int, tries: int, most: int) -> str:
        """Count a try that failed, and wait for the next one; why it failed. Raises what is no failure of the
        handler."""
        if isinstance(error, BusError | UnreadableStateError) or _cancelled(error):
            raise error
        self._context.tally.failures += 1
        breaker = self._context.breaker
        breaker.failed(error)
        why = f"{type(error).__name__}: {error}"
        if tries < most and not breaker.is_open:
            self._context.log.warning("consumer.retried", seq=seq, tries=tries, error=why)
            await asyncio.sleep(self._backoff.after(tries))
        return why

    async def handle(self, agent_queue: AgentQueue, event: Event, seq: int) -> None:
        """Handle one event once and publish what follows. Raises what the handler raises: then nothing has changed."""
        output, ownership = self._context.output, self._context.ownership
        await ownership.ensure()
        if self._spec.state is None:
            facts = await awaited(self._spec.handle([event] if self._spec.batch else event))
            await ownership.ensure()
            await output.publish(output.messages(facts))
        else:
            assert agent_queue.held is not None
            result = self._spec.folded(await awaited(self._spec.handle(agent_queue.held.state, event)))
            await ownership.ensure()
            state = await output.conclude(agent_queue.held.state, event, result)
            agent_queue.held.state, agent_queue.held.seq = state, seq
        self._context.tally.handled += 1


async def awaited(result: Any) -> Any:
    """What a handler returned, once it is there."""
    return await result if inspect.isawaitable(result) else result


def _cancelled(error: BaseException) -> bool:
    """Whether it is this task that is being cancelled, and not something that the handler waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

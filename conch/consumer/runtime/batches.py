"""Events handed to the consumer a batch at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from conch.bus import ReceivedEvent
from conch.consumer.runtime.attempts import Attempts, awaited
from conch.consumer.runtime.context import RuntimeContext
from conch.consumer.runtime.in_flight import InFlightBatch, InFlightBatches
from conch.telemetry import handling
from conch_schemas import ContractViolationError, Event


class Batches:
    """Hands whole batches to the consumer, one after the other, and publishes what follows from each in one piece."""

    def __init__(self, context: RuntimeContext, in_flight_batches: InFlightBatches, attempts: Attempts) -> None:
        self._context, self._spec = context, context.spec
        self._in_flight_batches, self._attempts = in_flight_batches, attempts

    async def take(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Hand a whole batch to the consumer. Where that fails to the last, each event by itself tells which it is."""
        context = self._context
        taken: dict[str, tuple[ReceivedEvent, Event]] = {}
        for arrived in arrivals:
            if context.is_below(arrived):
                continue
            try:
                event = arrived.event
            except ContractViolationError as error:
                await context.output.give_up(arrived.delivery, str(error), 0)
                continue
            if event.id in taken or context.is_done(context.agent_queue(arrived.agent), event.id, arrived.seq):
                context.tally.duplicates += event.id in taken
            else:
                taken[event.id] = arrived, event
        in_flight = InFlightBatch(arrivals[0].seq, list(taken), [])
        if taken and await self._failed(list(taken.values()), in_flight, self._spec.tries) is not None:
            for arrived, event in taken.values():
                is_open = context.breaker.is_open
                why = await self._failed([(arrived, event)], in_flight, 1)
                if why is not None:
                    context.breaker.gave_up()
                    await context.output.give_up(arrived.delivery, why, 0 if is_open else self._spec.tries)
        context.hot |= set(in_flight.ids)
        self._in_flight_batches.publish(in_flight)

    async def _failed(
        self, taken: Sequence[tuple[ReceivedEvent, Event]], in_flight: InFlightBatch, tries: int
    ) -> str | None:
        """Hand these to the consumer, at most `tries` times; why the last try failed, None when they are handled."""
        breaker = self._context.breaker
        most = breaker.tries(tries)
        why = None if most else breaker.why
        for number in range(1, most + 1):
            if number > 1 and breaker.is_open:
                break
            try:
                facts = await awaited(self._spec.handle([event for _, event in taken]))
                in_flight.messages += self._context.output.messages(facts)
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                why = await self._attempts.stumbled(error, taken[0][0].seq, number, tries)
            else:
                breaker.succeeded()
                self._context.tally.handled += len(taken)
                for arrived, event in taken:
                    handling.set(event)
                    self._context.log.debug("consumer.handled", fact=event.TYPE, seq=arrived.seq)
                handling.set(None)
                return None
        return why

"""Events handled side by side."""

from __future__ import annotations

from collections.abc import Sequence

from conch.bus import ReceivedEvent
from conch.consumer.runtime.attempts import Attempts
from conch.consumer.runtime.context import AgentQueue, RuntimeContext
from conch.consumer.runtime.in_flight import InFlightBatch, InFlightBatches


class Concurrent:
    """Handles each event in a task of its own, and publishes what follows from it as soon as it is there."""

    def __init__(self, context: RuntimeContext, in_flight_batches: InFlightBatches, attempts: Attempts) -> None:
        self._context, self._in_flight_batches, self._attempts = context, in_flight_batches, attempts

    async def take(self, arrivals: Sequence[ReceivedEvent]) -> None:
        """Begin with each, in their order, and wait for none."""
        # Here for all: no task then waits before its handler, so those begin in this order.
        await self._context.ownership.ensure()
        for arrived in arrivals:
            if not self._context.is_below(arrived):
                in_flight = InFlightBatch(arrived.seq, [], [])
                task = self._context.start(f"event{arrived.seq}", self._see_through(arrived, in_flight))
                self._in_flight_batches.add(in_flight, task)

    async def _see_through(self, arrived: ReceivedEvent, in_flight: InFlightBatch) -> None:
        await self._attempts.settle(AgentQueue(arrived.agent), arrived)
        self._in_flight_batches.remove(in_flight)

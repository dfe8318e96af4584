"""States and position, stored once in a while and at the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from conch.consumer.runtime.context import RuntimeContext
from conch.consumer.runtime.in_flight import InFlightBatches
from conch.consumer.runtime.ownership import uptime
from conch.errors import FencedError
from conch.tasks import concurrently

SNAPSHOT_SECONDS = 1.0
"""Time between two writings of position and states: the most work that a crash repeats."""
SNAPSHOT_SHARE, SNAPSHOT_LONGEST = 0.05, 30.0
"""Largest share of the time that is spent on it, and the longest time between two writings in seconds."""
STATES_AT_ONCE = 20
"""States that a writing stores after SNAPSHOT_SECONDS; with more it comes later in proportion, as each of them costs
the processes 0.4 ms: with 100 agents every five seconds."""
MAX_AGENT_QUEUES = 10_000
"""Agents that are known at once, and the states of folds with them."""


def pause_after(took: float, states: int) -> float:
    """Seconds until the next writing, after one of so many states that took that many seconds."""
    due = max(took / SNAPSHOT_SHARE, SNAPSHOT_SECONDS * states / STATES_AT_ONCE)
    return max(SNAPSHOT_SECONDS, min(due, SNAPSHOT_LONGEST))


class OvertakenError(FencedError):
    """The copy that we took over from wrote a state after we had read it: begin again from what is written. With the
    place as it is written, too: whoever keeps its own `recent` passes over what the state that it reads lacks."""


class Snapshots:
    """Stores the states of a fold, then the position.

    `handled` gives the sequence up to which every event is handled and what followed from it is published.
    """

    def __init__(self, context: RuntimeContext, in_flight_batches: InFlightBatches, handled: Callable[[], int]) -> None:
        self._context, self._in_flight_batches, self._handled = context, in_flight_batches, handled

    async def keep_writing(self, over: asyncio.Event) -> None:
        """Write again and again, until `over`."""
        pause = SNAPSHOT_SECONDS
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await over.wait()
                    return
            began = time.monotonic()
            states = await self.write()
            took = time.monotonic() - began
            pause = pause_after(took, states)

    async def write(self) -> int:
        """States first, then the position: it must not lead them. The number of states that were stored.

        Raises OvertakenError when another copy wrote a state while the position is still ours, FencedError when the
        position is not.
        """
        context = self._context
        async with context.writing:
            # All as of now: while they are written lanes go on. A state may hold events whose facts are on their way;
            # it is written once those have arrived.
            done, recent = self._handled(), list(context.position.recent)
            if done <= context.position.seq:
                return 0
            states = [
                (agent_queue.agent, held, held.state, held.seq)
                for agent_queue in context.agent_queues.values()
                if (held := agent_queue.held) is not None and held.seq != held.saved
            ]
            if states and not await self._in_flight_batches.landed():
                return 0
            try:
                await concurrently(lambda one: context.save(*one), states)
            except FencedError:
                if await context.position.is_held():
                    raise OvertakenError(
                        f"a state of {context.spec.name} was written by another copy meanwhile"
                    ) from None
                raise
            now = uptime()
            await context.position.save(done, recent)
            context.ownership.confirm(now)
            if len(context.agent_queues) > MAX_AGENT_QUEUES:
                self._forget_agent_queues()
            return len(states)

    def _forget_agent_queues(self) -> None:
        """Of agents that rest: a name is anybody's to invent. Their states are written and read again when needed."""
        agent_queues = self._context.agent_queues
        for agent, agent_queue in tuple(agent_queues.items()):
            resting = not agent_queue.queue and agent_queue.worker is None and not agent_queue.free.locked()
            if resting and (agent_queue.held is None or agent_queue.held.seq == agent_queue.held.saved):
                del agent_queues[agent]

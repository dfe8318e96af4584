"""The queue of one agent in a consumer, which keeps its events in order."""

from __future__ import annotations

from conch.bus import ReceivedEvent
from conch.consumer.runtime.attempts import Attempts
from conch.consumer.runtime.context import AgentQueue, RuntimeContext


class AgentQueues:
    """Empties each agent's queue in a task of its own, one event after the other."""

    def __init__(self, context: RuntimeContext, attempts: Attempts) -> None:
        self._context, self._attempts = context, attempts
        self.busy: dict[str, AgentQueue] = {}
        """Queues in which events wait."""
        self.enqueued = 0
        """Events that wait, of all agents."""

    def clear(self) -> None:
        """Discard what a run before this one held."""
        self.busy.clear()
        self.enqueued = 0

    def firsts(self) -> list[int]:
        """The sequence of each queue's first event."""
        return [agent_queue.queue[0].seq for agent_queue in self.busy.values() if agent_queue.queue]

    def enqueue(self, agent_queue: AgentQueue, arrived: ReceivedEvent) -> None:
        """Let an event wait behind what its agent's queue holds."""
        agent_queue.queue.append(arrived)
        self.enqueued += 1
        self.busy[agent_queue.agent] = agent_queue
        if agent_queue.worker is None:
            agent_queue.worker = self._context.start(agent_queue.agent, self._empty(agent_queue))

    async def _empty(self, agent_queue: AgentQueue) -> None:
        while agent_queue.queue:
            async with agent_queue.free:
                await self._attempts.settle(agent_queue, agent_queue.queue[0])
            agent_queue.queue.popleft()
            self.enqueued -= 1
            self._context.room.set()
        agent_queue.worker = None
        del self.busy[agent_queue.agent]

"""What the loop and its strategies share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from conch.bus import ReceivedEvent, SharedSubscription, StreamState
from conch.consumer.group.position import ConsumerPosition
from conch.consumer.runtime.breaker import ConsumerBreaker
from conch.consumer.runtime.output import ConsumerCounts, ConsumerOutput
from conch.consumer.runtime.ownership import OwnershipCheck
from conch.consumer.runtime.state import FoldState, load_state, save_state
from conch.consumer.spec import ConsumerSpec
from conch.log import get_logger

log = get_logger(__name__)


@dataclass
class AgentQueue:
    """One agent's events: handled as they come, or, behind one that fails or takes its time, waiting in the queue."""

    agent: str
    queue: deque[ReceivedEvent] = field(default_factory=deque)
    """Behind the one that is being worked on; that one is the first."""
    worker: asyncio.Task[None] | None = None
    """Empties the queue; None: events are handled as they come."""
    failed: BaseException | None = None
    """What the first try of the first in the queue raised, where it was made on the spot."""
    held: FoldState | None = None
    """Of a fold: the state, once it was needed."""
    free: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever changes the state while others may wait for it."""


class RuntimeContext:
    """One consumer as it runs: its output, its position, its agents. `begin` before anything is handled."""

    stream: StreamState
    """As it was when this run began."""
    position: ConsumerPosition
    group: asyncio.TaskGroup
    """Owns every task of this run."""

    def __init__(self, shared_events: SharedSubscription, spec: ConsumerSpec, breaker: ConsumerBreaker) -> None:
        self.spec, self.tally, self.breaker = spec, ConsumerCounts(), breaker
        self.bus = shared_events.bus
        self.output = ConsumerOutput(shared_events, spec, self.tally)
        self.ownership = OwnershipCheck(spec.name)
        self.log = log.bind(consumer=spec.name)
        self.agent_queues: dict[str, AgentQueue] = {}
        self.hot: set[str] = set()
        """Ids of what is handled, and not yet published."""
        self.room = asyncio.Event()
        """Set whenever an event or a batch is finished."""
        self.writing = asyncio.Lock()
        """Held by whoever writes states or the position: crossed, our own writes would look like another copy's."""
        self._highest = 0

    def clear(self) -> None:
        """Discard what a run before this one held."""
        self.agent_queues.clear()
        self.hot.clear()

    def begin(self, position: ConsumerPosition) -> None:
        """Go on from this position, which was just taken."""
        self.position = position
        self._highest = max(position.floors.values())
        self.ownership.begin(position)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` as a task of this run."""
        return self.group.create_task(work, name=f"conch.{self.spec.name}.{name}")

    def agent_queue(self, agent: str) -> AgentQueue:
        """The agent's queue, made when it is first needed."""
        agent_queue = self.agent_queues.get(agent)
        if agent_queue is None:
            agent_queue = self.agent_queues[agent] = AgentQueue(agent)
        return agent_queue

    def is_below(self, arrived: ReceivedEvent) -> bool:
        """Whether it was handled before its partition was ours: the others' places may lie further back."""
        return arrived.seq <= self._highest and arrived.seq <= self.position.floor(arrived.agent)

    def is_done(self, agent_queue: AgentQueue, id: str, seq: int) -> bool:
        """Whether this event was handled before, here or in a state that was written after the position."""
        if id in self.position.recent or id in self.hot:
            self.tally.duplicates += 1
            return True
        return agent_queue.held is not None and seq <= agent_queue.held.seq

    async def load(self, agent: str) -> FoldState:
        """The agent's state as it is stored. Raises UnreadableStateError when this version cannot read it."""
        return await load_state(self.bus, self.spec, agent, self.stream)

    async def save(self, agent: str, held: FoldState, state: Any, seq: int) -> None:
        """Store the agent's state as of `seq`. Raises FencedError when another copy wrote since."""
        await save_state(self.bus, self.spec, agent, held, state, seq, self.stream.epoch)

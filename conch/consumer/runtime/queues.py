"""The queue of one agent in a consumer, which keeps its events in order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from conch.bus import ReceivedEvent
from conch.consumer.runtime.state import FoldState


@dataclass
class AgentQueue:
    """One agent's events: handled as they come, or, behind one that fails or takes its time, waiting in the queue."""

    agent: str
    queue: deque[ReceivedEvent] = field(default_factory=deque)
    """Behind the one that is being worked on; that one is the first."""
    worker: asyncio.Task[None] | None = None
    """Empties the queue; None: events are handled as they come."""
    failed: BaseException | None = None
    """The exception of the first try of the first event in the queue, where it was made at once."""
    held: FoldState | None = None
    """For a fold: the state, once it was needed."""
    free: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the state is changed, as others may wait for it."""

"""Publishes an agent's events: each is stored on the bus first, and then applied to its memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID, uuid5

from conch.bus import ReceivedEvent, SharedSubscription
from conch.config import NO_SECRETS, Masker
from conch.cycle.control import Control
from conch.cycle.hosting.publish_watch import PublishWatch
from conch.cycle.state.memory import CYCLE_KINDS, OWN_KINDS, remember
from conch.cycle.state.recover import RecoveredAgent, refuse_stranger, take
from conch.errors import BusError, FencedError
from conch.log import get_logger
from conch.tasks import OwnedTasks
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    Event,
    action_id,
    consequence_id,
    cycle_event_id,
    decode,
    encode,
    source_of,
    subject_of,
    traceparent_of,
)

log = get_logger(__name__)
E = TypeVar("E", bound=Event)

RETURNED = 100
"""Own events that came back lately and are remembered: one that the stream has twice is still our own."""
TURNS = 4
"""Turns of the event loop in which a published event reaches the socket: task, publisher, client, its writer."""


class AgentPublisher:
    """Publishes the events of one agent, under `policy`. `at` is its memory, updated as events are stored."""

    def __init__(
        self,
        shared_events: SharedSubscription,
        agent: str,
        agentuid: str,
        at: RecoveredAgent,
        control: Control,
        policy: str,
        masker: Masker = NO_SECRETS,
    ) -> None:
        self.masker = masker
        self._shared_events, self._bus, self.agent, self.agentuid = shared_events, shared_events.bus, agent, agentuid
        self._at, self.policy = at, policy
        self._publish_watch = PublishWatch(shared_events, control)
        self._said: set[str] = set()
        """Ids of published events that have not come back from the reader yet."""
        self._returned: deque[str] = deque(maxlen=RETURNED)

    def of_cycle(self, kind: type[E], number: int, *, policy: str | None = None, **data: Any) -> E:
        """An event of a cycle, one of its kind. `policy`: the one that acted, where it is not the present one."""
        action = action_id(self.agentuid, number)
        identity = cycle_event_id(action, kind)
        return kind(**self._envelope(number, action, identity), policy=policy or self.policy, **data)

    def after(self, cause: Event, kind: type[E], index: int = 0, **data: Any) -> E:
        """An event that follows from an event of a cycle, of the same policy."""
        assert cause.cycle is not None
        assert cause.action_id is not None
        identity = consequence_id(cause.id, "cycle", "1", kind, index)
        envelope = self._envelope(cause.cycle, cause.action_id, identity)
        return kind(**envelope, causation_id=cause.id, policy=cause.policy, **data)

    def outside(self, kind: type[E], key: str, **data: Any) -> E:
        """An event of no cycle; `key` tells it from others of its kind."""
        identity = str(uuid5(UUID(self.agentuid), f"{kind.TYPE}/{key}"))
        return kind(
            id=identity, source=source_of(self.agent, self.agentuid), agent=self.agent, policy=self.policy, **data
        )

    async def publish(self, event: Event) -> None:
        """Store an event, then apply it to the memory. Waits while the bus is unreachable.

        Secrets in it are masked. Raises BusError when the stream has another content under its id: another process
        publishes for this agent.
        """
        event = self.masker.event(event)
        data = encode(event)
        if not self._bus.connected:
            self._publish_watch.gone()
        self._said.add(event.id)  # before: the reader may receive it before the bus has acknowledged it
        self._shared_events.expect(data, event)
        with self._publish_watch.waiting():
            stored = await self._bus.publish(subject_of(event), data, id=event.id)
        if stored.duplicate:
            await self._agree(event, stored.seq)
        note = log.info if isinstance(event, ActionTaken) else log.debug  # a line an act: the stream has the rest
        note(event.TYPE, cycle=event.cycle, seq=stored.seq)
        self._at.memory = remember(self._at.memory, event)

    @asynccontextmanager
    async def storing(self, event: Event) -> AsyncIterator[None]:
        """`publish` while the body runs, which does not need the event in the memory. The event is on its way when the
        body begins, also where that never waits: what the body publishes stands behind it, but for a retry. Left, it is
        stored, also where the body failed; cancelled, it may be, as with `publish`."""
        async with OwnedTasks() as tasks:
            stored = tasks.start(self.publish(event), name="conch.agent.storing")
            for _ in range(TURNS):
                if stored.done():
                    break
                await asyncio.sleep(0)
            try:
                yield
            except Exception:
                await stored
                raise
            await stored

    def heard(self, arrived: ReceivedEvent) -> None:
        """Take an event from the reader: others' events, and those published while the agent was not running, are
        applied now; so are the agent's own, which may arrive before the bus has acknowledged them.

        Raises FencedError when another copy of the agent runs, BusError when another agent has its name.
        """
        if arrived.seq <= self._at.end:
            return  # applied already
        try:
            event = arrived.event
        except ContractViolationError:
            return  # its consumers write a dead letter for it
        if event.id in self._said:
            self._said.discard(event.id)
            self._returned.append(event.id)
            self._at.memory = remember(self._at.memory, event)
        elif event.id not in self._returned:
            self._take(event, arrived.seq)

    def _take(self, event: Event, seq: int) -> None:
        if isinstance(event, OWN_KINDS):
            refuse_stranger(self.agent, self.agentuid, event.agentuid)
        if isinstance(event, CYCLE_KINDS):
            raise FencedError(f"another copy of {self.agent} runs on this bus (it said {event.TYPE}); this one stops")
        take(self._at, event, seq)

    def _envelope(self, number: int, action: str, identity: str) -> dict[str, object]:
        return {
            "id": identity,
            "source": source_of(self.agent, self.agentuid),
            "agent": self.agent,
            "cycle": number,
            "action_id": action,
            "subject": action,
            "traceparent": traceparent_of(action, identity),
        }

    async def _agree(self, event: Event, seq: int) -> None:
        """Check that the stored event has the same content; only its time may differ."""
        there = await self._bus.at(seq)
        if there is not None and decode(there.data).model_copy(update={"time": event.time}) != event:
            raise BusError(
                f"{event.TYPE} {event.id} stands on the stream with another content: does {self.agent} run twice?"
            )

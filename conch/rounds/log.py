"""The log of a lineage: its events as they are published, folded into its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from conch.bus import Bus
from conch.experience import ExperienceReader
from conch.training import LineageState, after, lineage_of
from conch_schemas import OF_TRAINING, Event, decode, encode, source_of, subject_filter, subject_of, training_id

EventT = TypeVar("EventT", bound=Event)


class LineageLog:
    """Publishes the events of one agent's adapters. The same move published twice is one event."""

    def __init__(
        self,
        bus: Bus,
        agent: str,
        agentuid: str,
        state: LineageState | None = None,
        told: Callable[[Event], None] = lambda _: None,
    ) -> None:
        """`told`: called with each event that is published here."""
        self.bus, self.agent, self.agentuid, self._told = bus, agent, agentuid, told
        self.state = state or LineageState()
        """The state after all events that were heard and published here."""

    async def publish(self, kind: type[EventT], *parts: object, **fields: Any) -> EventT:
        """Publish an event; its id is derived from `parts`. Raises BusError."""
        event = kind.model_validate(
            {
                "id": training_id(self.agentuid, kind, *parts),
                "source": source_of(self.agent, self.agentuid),
                "agent": self.agent,
                **fields,
            }
        )
        await self.bus.publish(subject_of(event), encode(event), id=event.id)
        self.hear(event)
        self._told(event)
        return event

    def hear(self, event: Event) -> None:
        """Take an event that another process published, or this one: twice is once."""
        if event.agent == self.agent:
            self.state = after(self.state, event)


async def read_lineage(bus: Bus, reader: ExperienceReader, agent: str) -> LineageState:
    """The state of an agent's lineage: what the store has, and what stands further down the stream. Raises StoreError,
    BusError."""
    events: list[Event] = list(reader.training.walk(agent))
    stream = await bus.state()
    upto = reader.position() if reader.epoch() == stream.epoch else 0
    filters = [subject_filter(kind, agent) for kind in OF_TRAINING]
    events.extend([decode(delivery.data) async for delivery in bus.read(filters, after=upto)])
    return lineage_of(events)


def retained(states: Iterable[LineageState], keep: int) -> set[str]:
    """The adapters that stay on the shelf: of each lineage the one that acts, the one before it, the one that is tried
    or judged, and the `keep` with the best gates that were not refused for their file."""
    kept: set[str] = set()
    for state in states:
        kept |= {one for one in (state.adapter, state.previous) if one is not None}
        kept |= {one.adapter for one in state.rounds if one.is_open and one.adapter is not None}
        gated = [
            (one.gated.difference, one.adapter)
            for one in state.rounds
            if one.gated is not None and one.gated.difference is not None and one.adapter is not None
        ]
        kept |= {adapter for _, adapter in sorted(gated, reverse=True)[:keep]}
    return kept

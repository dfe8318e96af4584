"""Finds words in the store, on the stream, in the bucket and in the files of a home."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from conch.bus import Bus, KeyValue
from conch.experience import StoreLocation, StoreSearch
from conch.forgetting.files import HeldFile, held_files
from conch.forgetting.needle import Needle
from conch.home import Home
from conch_schemas import (
    STREAM_SUBJECTS,
    ContractViolationError,
    Mark,
    MessageReceived,
    MessageSent,
    PersonForgotten,
    WeightsSet,
    agent_of,
    decode,
    subject_filter,
    type_of,
)

_STAY = (f".{PersonForgotten.TYPE}", f".{WeightsSet.TYPE}")
"""Ends of the subjects of events that stay: records of removals, and the weights that totals go by."""


class StreamEvent(NamedTuple):
    """An event of the stream, as far as it is looked at."""

    seq: int
    id: str
    agent: str | None
    kind: str
    """Its type, `action.taken`."""
    action: str | None
    data: bytes


@dataclass
class Found:
    """What holds the words."""

    actions: set[str] = field(default_factory=set)
    """Ids of the actions of which a fact holds them."""
    events: list[StreamEvent] = field(default_factory=list)
    """Events to be erased: those that hold them, and those about the actions."""
    marks: list[Mark] = field(default_factory=list)
    """Marks that hold them, and those about the actions; not those whose words were removed before."""
    values: dict[str, KeyValue] = field(default_factory=dict)
    """By key, the values of the bucket that hold them."""
    files: list[HeldFile] = field(default_factory=list)
    """Databases and text files of the home that hold them."""

    @property
    def nothing(self) -> bool:
        """Whether the words stand nowhere."""
        return not (self.actions or self.events or self.marks or self.values or self.files)


async def find(home: Home, store: StoreLocation, bus: Bus, needle: Needle, agents: Set[str]) -> Found:
    """What holds the words, of these agents; reads only, also beside a run. Raises BusError, StoreError, HomeError."""
    found = Found()
    is_stored = await asyncio.to_thread(store.exists)
    if is_stored:
        found.actions |= await asyncio.to_thread(_actions, store, needle, agents)
    async for event in _events(bus, agents):
        if event.action is not None and needle.held(event.data):
            found.actions.add(event.action)
    async for event in _events(bus, agents):
        if event.action in found.actions or needle.held(event.data):
            found.events.append(event._replace(data=b""))
    if is_stored:
        found.marks = await asyncio.to_thread(_marks, store, needle, agents, found.actions)
    for key in await bus.keys():
        entry = await bus.get(key)
        if entry is not None and needle.held(entry.value):
            found.values[key] = entry
    found.files = await asyncio.to_thread(lambda: list(held_files(home, store, needle)))
    return found


async def message_text(bus: Bus, message: str) -> str | None:
    """The text of a message on the stream, by its id; None: the stream does not have it."""
    async for delivery in bus.read([subject_filter(MessageReceived), subject_filter(MessageSent)]):
        try:
            event = decode(delivery.data)
        except ContractViolationError:
            continue
        if event.id == message and isinstance(event, MessageReceived | MessageSent):
            return event.text
    return None


def _actions(store: StoreLocation, needle: Needle, agents: Set[str]) -> set[str]:
    with StoreSearch(store, needle.held) as search:
        return search.actions(agents)


def _marks(store: StoreLocation, needle: Needle, agents: Set[str], actions: Set[str]) -> list[Mark]:
    from conch.witness import is_without_words

    with StoreSearch(store, needle.held) as search:
        return [
            mark
            for agent in sorted(agents)
            for mark, held in search.marks(agent)
            if (held or mark.action_id in actions) and not is_without_words(mark)
        ]


async def _events(bus: Bus, agents: Set[str]) -> AsyncIterator[StreamEvent]:
    filters: Sequence[str] = STREAM_SUBJECTS
    async for delivery in bus.read(filters):
        agent = agent_of(delivery.subject)
        if agent not in agents or delivery.subject.endswith(_STAY):
            continue
        kind = type_of(delivery.subject)
        try:
            wire = json.loads(delivery.data)
            action = wire.get("actionid") or (wire["data"].get("mark") or {}).get("action_id")
            yield StreamEvent(delivery.seq, str(wire.get("id")), agent, kind, action, delivery.data)
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            yield StreamEvent(delivery.seq, "", agent, kind, None, delivery.data)

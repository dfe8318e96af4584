"""The conversation with an agent: messages to it and from it, read from the stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from conch.bus import Bus, decoded
from conch.tasks import concurrently
from conch_schemas import ContractViolationError, Event, MessageReceived, MessageSent, subject_filter
from conch_services.dashboard.stream.frames import told

MOST_SAID = 20
"""Messages that a page shows."""
BACK = 4096
"""Stream sequences that are read first, back from the newest message; where they hold too few messages eight times as
many, and so on to its beginning."""
PATIENCE = 0.5
"""Seconds that looking may take; the page shows what is found by then."""


@dataclass(frozen=True)
class TalkMessage:
    """A message of the conversation."""

    by: str
    """`me`: to the agent; `it`: by the agent."""
    text: str
    """One line, safe, as the live frames have it."""


@dataclass(frozen=True)
class Conversation:
    """The last messages of the conversation, the oldest first."""

    upto: int = 0
    """Every message up to this stream sequence is in it, or older; 0: there is none."""
    said: Sequence[TalkMessage] = ()


async def talk_of(bus: Bus, agent: str) -> Conversation:
    """The last MOST_SAID messages of the agent. Raises BusError; cancelled, nothing is left behind."""
    found = await last_facts(bus, agent, (MessageReceived, MessageSent), MOST_SAID)
    said = [(event, told(event)) for event in found.events]
    return Conversation(
        found.upto,
        tuple(
            TalkMessage("me" if isinstance(event, MessageReceived) else "it", words["text"])
            for event, words in said
            if words is not None
        ),
    )


@dataclass(frozen=True)
class LastFacts:
    """The last facts of some kinds, the oldest first."""

    upto: int = 0
    """Every one of them up to this stream sequence is among them, or older; 0: there is none."""
    events: Sequence[Event] = ()


async def last_facts(bus: Bus, agent: str, kinds: Sequence[type[Event]], most: int) -> LastFacts:
    """The last `most` facts of these kinds, as many as are found within PATIENCE.

    Raises BusError; cancelled, nothing is left behind.
    """
    subjects = [subject_filter(kind, agent) for kind in kinds]
    newest = max((one.seq for one in await concurrently(bus.last, subjects) if one is not None), default=0)
    found = LastFacts(newest)
    span, looked = BACK, newest == 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while not looked:
                after = max(0, newest - span)
                found = await _behind(bus, subjects, after, most)
                looked = after == 0 or len(found.events) == most
                span *= 8
    return found


async def _behind(bus: Bus, subjects: Sequence[str], after: int, most: int) -> LastFacts:
    events: deque[Event] = deque(maxlen=most)
    upto = after
    async for delivery in bus.read(subjects, after=after):
        upto = delivery.seq
        with contextlib.suppress(ContractViolationError):
            events.append(decoded(delivery.subject, delivery.data))
    return LastFacts(upto, tuple(events))

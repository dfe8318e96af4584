"""The conversation with an agent: messages to it and from it, read from the stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from conch.bus import Bus, decoded
from conch.tasks import concurrently
from conch_schemas import ContractViolationError, MessageReceived, MessageSent, subject_filter
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
    subjects = [subject_filter(kind, agent) for kind in (MessageReceived, MessageSent)]
    newest = max((one.seq for one in await concurrently(bus.last, subjects) if one is not None), default=0)
    found = Conversation(newest)
    span, looked = BACK, newest == 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while not looked:
                after = max(0, newest - span)
                found = await _behind(bus, subjects, after)
                looked = after == 0 or len(found.said) == MOST_SAID
                span *= 8
    return found


async def _behind(bus: Bus, subjects: Sequence[str], after: int) -> Conversation:
    said: deque[TalkMessage] = deque(maxlen=MOST_SAID)
    upto = after
    async for delivery in bus.read(subjects, after=after):
        upto = delivery.seq
        with contextlib.suppress(ContractViolationError):
            event = decoded(delivery.subject, delivery.data)
            if (words := told(event)) is not None:
                said.append(TalkMessage("me" if isinstance(event, MessageReceived) else "it", words["text"]))
    return Conversation(upto, tuple(said))

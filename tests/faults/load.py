"""A load to put under faults, and the counting: messages stored through one connection, singly and in batches, each
answered by a fold through another; then what was acknowledged is looked for on the stream."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import BaseModel

from conch.bus import Bus, OutgoingMessage, shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.consumer import ConsumerRuntime, ConsumerSpec, follow
from conch_schemas import MessageReceived, MessageSent, decode, encode, source_of, subject_filter, subject_of

SINGLY, IN_BATCHES, BATCH = 8, 2, 20
"""Agents that publish one by one, agents that publish in batches, events of a batch."""
REST = 0.04
"""Seconds between two publishes of an agent: a load, not a flood."""
PATIENCE = 60.0
"""Seconds after which a load that does not go on has failed."""


@dataclass(frozen=True)
class Counted:
    """What became of the load. Nothing is wrong when all but `messages` are 0."""

    messages: int
    """Acknowledged."""
    lost: int = 0
    """Acknowledged and not where the acknowledgement says, or without its answer."""
    doubled: int = 0
    """More than once on the stream, messages and answers."""
    astray: int = 0
    """Not in their agent's order."""

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(ours + theirs for ours, theirs in zip(_figures(self), _figures(other), strict=True)))


def _figures(counted: Counted) -> tuple[int, int, int, int]:
    return counted.messages, counted.lost, counted.doubled, counted.astray


class Heard(BaseModel):
    """The fold's state: the last message of an agent, and those that came out of their turn."""

    last: int = 0
    astray: tuple[int, ...] = ()


def answer(state: Heard, message: MessageReceived) -> tuple[Heard, MessageSent]:
    """Say the number again; note one that is not the next."""
    number = int(message.text)
    astray = state.astray if number == state.last + 1 else (*state.astray, number)
    said = follow(message, MessageSent, consumer="answer", version="1", text=message.text, answers=message.id)
    return Heard(last=max(number, state.last), astray=astray), said


ANSWER = ConsumerSpec("answer", "1", (MessageReceived,), answer, state=Heard, initial=Heard, emits=(MessageSent,))


def message(agent: str, number: int) -> OutgoingMessage:
    """Message `number` of an agent, ready for the bus."""
    uid = uuid.uuid5(uuid.NAMESPACE_URL, agent)
    event = MessageReceived(
        id=str(uuid.uuid5(uid, str(number))), source=source_of(agent, uid), agent=agent, text=str(number)
    )
    return OutgoingMessage(subject_of(event), encode(event), event.id)


class Load:
    """Made by `loaded`."""

    def __init__(self, bus: Bus, runtime: ConsumerRuntime) -> None:
        self.bus, self.runtime = bus, runtime
        self.acknowledged: dict[str, int] = {}
        """Id of a message -> where it stands, as it was acknowledged."""
        self.repeated = 0
        """Acknowledged as known already: an earlier try had arrived after all."""
        self._over = False
        self._numbers = itertools.count(1)

    async def recovered(self) -> float:
        """Seconds until a message that is published now has been stored, and all up to it are answered."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._say(message("probe", next(self._numbers)))
        await self._answered()
        return loop.time() - began

    async def _say(self, *messages: OutgoingMessage) -> None:
        if len(messages) == 1:
            stored = [await self.bus.publish(*messages[0][:2], id=messages[0].id)]
        else:
            stored = list(await self.bus.publish_many(messages))
        for one, where in zip(messages, stored, strict=True):
            self.acknowledged[one.id] = where.seq
            self.repeated += where.duplicate

    async def _answered(self) -> None:
        upto = max(self.acknowledged.values())
        async with asyncio.timeout(PATIENCE):
            while self.runtime.handled < upto:
                await asyncio.sleep(0.002)

    async def _speak(self, messages: Iterator[tuple[OutgoingMessage, ...]]) -> None:
        while not self._over:
            await self._say(*next(messages))
            await asyncio.sleep(REST)


@asynccontextmanager
async def loaded(url: str, token: str | None, *, strict: bool = False) -> AsyncIterator[Load]:
    """A load at `url` while entered, committed in groups where `strict`; leaving waits until all is said and answered,
    at most PATIENCE seconds."""
    async with AsyncExitStack() as stack:
        bus, theirs = [
            await stack.enter_async_context(JetStreamBus(Access(url, token=token), name=name, strict=strict))
            for name in ("speaks", "answers")
        ]
        shared_events = await stack.enter_async_context(shared_subscription(theirs))
        load, stop = Load(bus, ConsumerRuntime(shared_events, ANSWER)), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(load.runtime.run(stop), name="load.answer")
            speakers = [
                group.create_task(load._speak(_messages(f"{kind}-{place}", size)), name=f"load.{kind}.{place}")
                for kind, agents, size in (("one", SINGLY, 1), ("many", IN_BATCHES, BATCH))
                for place in range(agents)
            ]
            await load.recovered()  # it runs
            yield load
            load._over = True
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait(speakers)
            await load._answered()
            stop.set()


def _messages(agent: str, size: int) -> Iterator[tuple[OutgoingMessage, ...]]:
    for first in itertools.count(1, size):
        yield tuple(message(agent, number) for number in range(first, first + size))


async def counted(load: Load, url: str, token: str | None) -> Counted:
    """Look at the whole stream, through a connection of its own. After the load was left."""
    there: Counter[str] = Counter()
    places: dict[str, int] = {}
    answered: set[str] = set()
    async with JetStreamBus(Access(url, token=token)) as bus:
        async for delivery in bus.read([subject_filter(MessageReceived), subject_filter(MessageSent)]):
            event = decode(delivery.data)
            there[event.id] += 1
            places[event.id] = delivery.seq
            if isinstance(event, MessageSent):
                answered.add(event.answers or "")
        states = [await bus.get(key) for key in await bus.keys() if key.startswith("state/answer/")]
    return Counted(
        messages=len(load.acknowledged),
        lost=sum(places.get(id) != seq or id not in answered for id, seq in load.acknowledged.items()),
        doubled=sum(times - 1 for times in there.values()),
        astray=sum(len(json.loads(entry.value)["state"]["astray"]) for entry in states if entry is not None),
    )

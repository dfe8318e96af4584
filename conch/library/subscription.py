"""`publish` and `subscribe`: write events to a bus, and read them with their types."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Generic, Self, TypeVar, overload

from conch.bus import Bus, Delivery, Reader, Stored, decoded
from conch.log import get_logger
from conch.tasks import innermost
from conch_schemas import (
    STREAM_SUBJECTS,
    ContractViolationError,
    Event,
    agent_filter,
    encode,
    subject_filter,
    subject_of,
)

log = get_logger(__name__)
E = TypeVar("E", bound=Event)


async def publish(bus: Bus, event: Event) -> Stored:
    """Publish one event; returns when the stream has stored it, however long the bus is away.

    The same event again is stored once: `Stored.duplicate` says so. Raises BusError when it is refused for good.
    Cancelled, it may be stored or not: publish it again.

    ```python
    import conch
    from conch.testing import make_action_taken

    async with conch.MemoryBus() as bus:
        stored = await conch.publish(bus, make_action_taken())
        assert (stored.seq, stored.duplicate) == (1, False)
    ```
    """
    return await bus.publish(subject_of(event), encode(event), id=event.id)


@overload
def subscribe(bus: Bus, /, *, agent: str | None = None, after: int | None = None) -> Subscription[Event]: ...


@overload
def subscribe(bus: Bus, /, *kinds: type[E], agent: str | None = None, after: int | None = None) -> Subscription[E]: ...


def subscribe(
    bus: Bus, /, *kinds: type[Event], agent: str | None = None, after: int | None = None
) -> Subscription[Any]:
    """Subscribe to events of `kinds` (none: of every kind), of one agent or of all, in stream order, each once.

    `after`: the sequence behind which the subscription begins; 0: the start of the stream; None: its end as of when the
    subscription is entered. It goes on through reconnects and ends when it is left or cancelled. It keeps no position
    and delays no trimming; use a consumer where each event must be handled. What is no valid event is skipped.

    Enter it where an event must not be missed that is published just after; `async for` without entering begins with
    the first step. Raises BusError when the bus refuses for good or was left.

    ```python
    import conch
    from conch.testing import make_action_taken, make_reward_assigned
    from conch_schemas import RewardAssigned

    async with conch.MemoryBus() as bus:
        async with conch.subscribe(bus, RewardAssigned, agent="echo") as rewards:
            act = make_action_taken()
            await conch.publish(bus, act)
            await conch.publish(bus, make_reward_assigned(act, {"joy": 1.0}))
            async for reward in rewards:  # a RewardAssigned, also for a type checker
                print(reward.scorer, reward.scores[0].value)
                break
    ```
    """
    return Subscription(bus, kinds, agent=agent, after=after)


class Subscription(Generic[E]):
    """A subscription, made by `subscribe`: an async iterator of typed events, entered as a context or not.

    ```python
    import conch
    from conch.testing import make_action_taken
    from conch_schemas import ActionTaken

    async with conch.MemoryBus() as bus:
        await conch.publish(bus, make_action_taken(cycle=7))
        acts: conch.Subscription[ActionTaken] = conch.subscribe(bus, ActionTaken, after=0)
        async for act in acts:
            assert act.cycle == 7
            break
    ```
    """

    def __init__(
        self,
        bus: Bus,
        kinds: tuple[type[E], ...],
        *,
        agent: str | None = None,
        after: int | None = None,
        over: asyncio.Event | None = None,
    ) -> None:
        """`over`: once it is set, the iteration ends with the last event that is on the stream then."""
        self._bus, self._kinds, self._after, self._over = bus, kinds, after, over
        self._filters = [subject_filter(kind, agent or "*") for kind in kinds]
        if not kinds:
            self._filters = list(STREAM_SUBJECTS) if agent is None else [agent_filter(agent)]
        self._stack = AsyncExitStack()
        self._reader: Reader | None = None
        self._seq = 0
        self._waiting: deque[Delivery] = deque()

    async def __aenter__(self) -> Self:
        self._seq = self._after if self._after is not None else (await self._bus.state()).last
        self._reader = await self._stack.enter_async_context(self._bus.follow(self._filters, after=self._seq))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader = None
        await self._stack.aclose()

    def __aiter__(self) -> AsyncIterator[E]:
        return self._events(self._reader) if self._reader is not None else self._entered()

    async def _entered(self) -> AsyncIterator[E]:
        async with self:
            assert self._reader is not None
            async for event in self._events(self._reader):
                yield event

    async def _events(self, reader: Reader) -> AsyncIterator[E]:
        while self._waiting or await self._fetch(reader):
            delivery = self._waiting.popleft()
            self._seq = delivery.seq
            try:
                event = decoded(delivery.subject, delivery.data)
            except ContractViolationError as error:
                log.warning("subscription.skipped", seq=delivery.seq, why=str(error))
                continue
            if not self._kinds or isinstance(event, self._kinds):
                yield event  # type: ignore[misc]  # without kinds it is a Subscription[Event]

    async def _fetch(self, reader: Reader) -> bool:
        """Wait for the next events; whether there are any: none once it is over and all was given out."""
        if self._over is None:
            self._waiting += await reader.get()
            return True
        try:
            async with asyncio.TaskGroup() as group:
                getting = group.create_task(reader.get(), name="conch.subscription")
                over = group.create_task(self._over.wait(), name="conch.subscription.over")
                await asyncio.wait((getting, over), return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
                if not getting.done() and not await self._bus.count(self._filters, after=self._seq):
                    getting.cancel()
        except BaseExceptionGroup as failed:
            raise innermost(failed) from None
        if getting.cancelled():
            return False
        self._waiting += getting.result()
        return True

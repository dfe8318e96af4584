"""The shared subscription: all readers in one process share one reader of the stream and one decoding of each event.

Each subscription has its own position and its own bounded queue. The shared reader waits for a full queue for a moment,
which is enough for a consumer that keeps up. A slower one does not delay the others: its queue stops taking events, it
reads what it missed from the stream by itself, and joins again at the shared position.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from conch.bus.protocol import Bus, Delivery, Reader
from conch.log import get_logger
from conch.tasks import background
from conch_schemas import (
    MAX_EVENT_BYTES,
    STREAM_SUBJECTS,
    ContractViolationError,
    Event,
    agent_filter,
    agent_of,
    decode,
    subject_filter,
    subject_of,
    verify_ids,
)

log = get_logger(__name__)

BATCH = 512
"""Events taken from the stream at a time."""
QUEUE_EVENTS, QUEUE_BYTES = 4096, 32 * 2**20
"""Capacity of one subscription's queue. What was read from the stream meanwhile comes on top: at most BATCH events."""
PATIENCE = 0.25
"""Seconds that a full subscription is waited for; then it reads by itself."""
ROUTES = 65536
"""Most subjects whose subscriptions are cached; publishers choose subjects freely."""

EXPECTED = 32768
"""Own events that are cached until they come back, or until all subscriptions that read by themselves have caught up;
one that does not come back is dropped in time. With fewer, a burst of acts exceeds the cache, and half of it is decoded
after all."""

Mine = Callable[[str], bool]
"""Whether an agent's events belong to this consumer."""


class ReceivedEvent:
    """An event as it arrived, decoded once for any number of subscriptions."""

    __slots__ = ("_event", "agent", "data", "seq", "subject", "time")

    def __init__(self, delivery: Delivery, agent: str, event: Event | None = None) -> None:
        self.seq, self.subject, self.data, self.time = delivery
        self.agent = agent
        """The agent's token in the subject."""
        self._event: Event | ContractViolationError | None = event

    @property
    def delivery(self) -> Delivery:
        """The event as stored in the stream."""
        return Delivery(self.seq, self.subject, self.data, self.time)

    @property
    def is_event(self) -> bool:
        """Whether the bytes are a valid event."""
        try:
            return bool(self.event)
        except ContractViolationError:
            return False

    @property
    def event(self) -> Event:
        """The decoded event. Raises ContractViolationError, every time, for no event, or one on a wrong subject."""
        if self._event is None:
            try:
                self._event = decoded(self.subject, self.data)
            except ContractViolationError as error:
                self._event = error
        if isinstance(self._event, ContractViolationError):
            raise self._event
        return self._event


def decoded(subject: str, data: bytes) -> Event:
    """The event in `data`. Raises ContractViolationError when it is no event, too large, does not belong on `subject`,
    or has an id that does not follow from its content."""
    if len(data) > MAX_EVENT_BYTES:
        raise ContractViolationError(f"it has {len(data)} bytes, an event at most {MAX_EVENT_BYTES}")
    event = decode(data)
    if subject_of(event) != subject:
        raise ContractViolationError(f"an event {event.TYPE} of {event.agent} stands on {subject[:200]!r}")
    verify_ids(event)
    return event


class SharedSubscription:
    """One reader of the stream that serves many subscriptions; made by `shared_subscription`."""

    def __init__(self, bus: Bus, seq: int) -> None:
        self.bus = bus
        self.seq = seq
        """The sequence up to which everything was queued for the subscriptions at the shared position."""
        self.broken: BaseException | None = None
        self._subscriptions: set[StreamSubscription] = set()
        self._routes: dict[str, tuple[str, tuple[StreamSubscription, ...]]] = {}
        self._expected: OrderedDict[bytes, Event] = OrderedDict()
        self._eased = asyncio.Event()

    @asynccontextmanager
    async def subscribe(
        self, kinds: Sequence[type[Event]] | None, *, after: int, agent: str | None = None, mine: Mine | None = None
    ) -> AsyncIterator[StreamSubscription]:
        """Events of `kinds` (None: all) behind sequence `after`, of one agent, or of those that are `mine`, or of all.

        In stream order, each once. Once entered, it sees everything that is published from then on.
        """
        subscription = StreamSubscription(self, kinds, after, agent, mine)
        self._subscriptions.add(subscription)
        self._routes.clear()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._routes.clear()
            self._forget_what_came()
            await subscription._close()

    def expect(self, data: bytes, event: Event) -> None:
        """Cache `event`, which is about to be published as `data`: when it comes back it need not be decoded."""
        if len(self._expected) >= EXPECTED:
            self._expected.popitem(last=False)
        self._expected[data] = event

    def reroute(self) -> None:
        """Evaluate every subscription's `mine` again: the assignment of agents has changed."""
        self._routes.clear()

    def _said(self, delivery: Delivery) -> Event | None:
        """The cached event, where we published it; it stays for the subscriptions that are behind."""
        event = self._expected.get(delivery.data)
        return event if event is not None and subject_of(event) == delivery.subject else None

    def _forget_what_came(self) -> None:
        """Clear the cache once no subscription is behind. Events in flight meanwhile are decoded after all."""
        if all(subscription._level for subscription in self._subscriptions):
            self._expected.clear()

    def _route(self, subject: str) -> tuple[str, tuple[StreamSubscription, ...]]:
        if len(self._routes) >= ROUTES:
            self._routes.clear()
        agent, _, kind = subject.removeprefix("conch.v1.").partition(".")
        route = self._routes[subject] = (
            agent,
            tuple(subscription for subscription in self._subscriptions if subscription._takes(agent, kind)),
        )
        return route

    async def _pump(self, reader: Reader) -> None:
        try:
            while True:
                self._dispatch(await reader.get(BATCH))
                if any(subscription.is_full for subscription in self._subscriptions):
                    await self._wait_for_the_full()
        except Exception as error:  # every subscription raises it: asyncio need not report it too
            self.broken = error
        except BaseException as error:
            self.broken = error
            raise
        finally:
            for subscription in self._subscriptions:
                subscription._wake.set()

    async def _wait_for_the_full(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while any(subscription.is_full for subscription in self._subscriptions):
                    self._eased.clear()
                    await self._eased.wait()
        for subscription in self._subscriptions:
            if subscription.is_full:
                subscription._level = False  # it goes on from its last event by itself

    def _dispatch(self, deliveries: Sequence[Delivery]) -> None:
        routes = self._routes
        for delivery in deliveries:
            subject = delivery.subject
            agent, subscriptions = routes.get(subject) or self._route(subject)
            if subscriptions:
                arrived = ReceivedEvent(delivery, agent, self._said(delivery))
                if all(subscription._level for subscription in subscriptions):
                    self._expected.pop(delivery.data, None)
                for subscription in subscriptions:
                    subscription._offer(arrived)
        self.seq = deliveries[-1].seq


class StreamSubscription:
    """One reader's end of a feed; made by `SharedSubscription.subscription`."""

    def __init__(
        self,
        shared_events: SharedSubscription,
        kinds: Sequence[type[Event]] | None,
        after: int,
        agent: str | None,
        mine: Mine | None,
    ) -> None:
        self._shared_events, self._agent, self._mine = shared_events, agent, mine
        self._types = None if kinds is None else {kind.TYPE for kind in kinds}
        one = agent or "*"
        everything = STREAM_SUBJECTS if agent is None else (agent_filter(agent),)
        self._filters = everything if kinds is None else tuple(subject_filter(kind, one) for kind in kinds)
        self._last = self.given = after
        """`_last`: the last event that was queued or read; `given`: the last that `get` returned."""
        self._queue: deque[ReceivedEvent] = deque()
        self._bytes = 0
        self._level = shared_events.seq <= after
        """Whether the shared reader queues events for it."""
        self._past: AsyncGenerator[Delivery, None] | None = None
        self._end = 0
        self._wake = asyncio.Event()

    async def get(self, most: int = 256) -> Sequence[ReceivedEvent]:
        """The next events in stream order: at least one, at most `most`. A cancelled call loses no event.

        Raises the exception that ended the shared reader.
        """
        while True:
            if self._queue:
                return self._dequeue(most)
            if not self._level:
                if found := await self._catch_up(most):
                    return found
                continue
            if self._shared_events.broken is not None:
                raise self._shared_events.broken
            self._wake.clear()
            await self._wake.wait()

    def more(self, most: int) -> Sequence[ReceivedEvent]:
        """At most `most` events that wait in the queue; none where it is empty. For a caller of `get` that let some
        time pass before it handles what it got."""
        return self._dequeue(most) if self._queue and most > 0 else ()

    @property
    def seen(self) -> int:
        """The sequence up to which everything that concerns this subscription was returned."""
        return self._shared_events.seq if self._level and not self._queue else self.given

    @property
    def level(self) -> bool:
        """Whether it is at the shared position."""
        return self._level and not self._queue

    @property
    def is_full(self) -> bool:
        """Whether no more should be queued for it."""
        return self._level and (len(self._queue) >= QUEUE_EVENTS or self._bytes >= QUEUE_BYTES)

    def _takes(self, agent: str, kind: str) -> bool:
        if self._types is not None and kind not in self._types:
            return False
        if self._agent is not None:
            return agent == self._agent
        return self._mine is None or self._mine(agent)

    def _offer(self, arrived: ReceivedEvent) -> None:
        if not self._level or arrived.seq <= self._last:
            return
        self._queue.append(arrived)
        self._bytes += len(arrived.data)
        self._last = arrived.seq
        self._wake.set()

    def _dequeue(self, most: int) -> Sequence[ReceivedEvent]:
        queue = self._queue
        if len(queue) <= most:
            found = list(queue)
            queue.clear()
            self._bytes = 0
        else:
            found = [queue.popleft() for _ in range(most)]
            self._bytes -= sum(len(arrived.data) for arrived in found)
        self.given = found[-1].seq
        self._shared_events._eased.set()
        return found

    async def _catch_up(self, most: int) -> Sequence[ReceivedEvent]:
        """Some events between `_last` and the shared position; empty once there, or if none of that stretch match."""
        if self._past is None:
            if self._shared_events.seq <= self._last:
                self._level = True
                self._shared_events._forget_what_came()
                return ()
            self._end = self._shared_events.seq
            self._past = cast(
                AsyncGenerator[Delivery, None], self._shared_events.bus.read(self._filters, after=self._last)
            )
        found: list[ReceivedEvent] = []
        last, past = self._last, self._past
        self._past = None  # cancelled or broken: read again from its position
        async for delivery in past:
            last = delivery.seq
            agent = agent_of(delivery.subject) or ""
            if self._mine is None or self._mine(agent):
                found.append(ReceivedEvent(delivery, agent, self._shared_events._said(delivery)))
                if len(found) >= most:
                    self._past = past
                    break
        else:
            last = max(last, self._end)
        self._last = last
        if found:
            self.given = found[-1].seq
        return found

    async def _close(self) -> None:
        if self._past is not None:
            await self._past.aclose()


@asynccontextmanager
async def shared_subscription(
    bus: Bus, kinds: Sequence[type[Event]] | None = None
) -> AsyncIterator[SharedSubscription]:
    """A shared subscription of `bus` from its present end; with `kinds` of those alone, where no subscription needs
    others.

    Leave its subscriptions first; once left, it reads no more.
    """
    last = (await bus.state()).last
    filters = STREAM_SUBJECTS if kinds is None else [subject_filter(kind) for kind in kinds]
    async with bus.follow(filters, after=last) as reader:
        shared_events = SharedSubscription(bus, last)
        async with background(shared_events._pump(reader), name="conch.feed"):
            yield shared_events

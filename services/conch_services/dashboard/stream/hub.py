"""The hub of the live stream: turns events into frames once, for all open pages, each of which reads at its own pace.

The newest events are in one ring buffer; a frame is made when the first page asks for it, so that a run at which nobody
looks decodes nothing here. A page only has a position in it: a page that is too far behind to find its
next frame there is told how many it misses, and goes on with the oldest that there is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from dataclasses import dataclass

from conch.bus import ReceivedEvent, SharedSubscription, decoded
from conch_schemas import ContractViolationError, Event, subject_filter, type_of
from conch_services.dashboard.stream.frames import SHOWN, brief, frame

LIVE = "live"
"""The value of `state` while events come."""
ALONE = "no run is in progress: history is shown, and conch run is waited for"
"""The value of `state` while there is no bus."""
MOST_KEPT = 8192
"""Events that are kept while a page reads; without one, as many as a page is sent at a time."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of the events that are kept, as they came, for pages or without one."""
MOST_AT_ONCE = 512
"""Frames that a page is sent at a time; of more, the newest."""
MOST_READ = 4096
"""Events that are read back from the stream for a page that comes again; one further behind misses some."""
BATCH = 256
"""Events taken at a time."""
TICK_SECONDS, GATHER_SECONDS = 0.1, 0.03
"""Least time between two wake-ups of the pages, and from the first event after a silence to the next one: within it
come the act that a thought leads to without a model, its scores and its total. The events of a burst come together. A
page draws no more often than four times a second."""
LOOK_SECONDS = 0.25
"""Seconds between two checks whether the bus is still there."""


@dataclass(frozen=True)
class PageUpdate:
    """The next update for a page: frames, and the state of the bus."""

    after: int
    """Stream sequence up to which the page then has everything."""
    frames: bytes = b""
    """The frames as sent over the wire."""
    missed: int = 0
    """Frames before these that the page did not get; a minimum, where they were trimmed."""
    anew: bool = False
    """The stream is another one than the page knew: it begins again from the events of that stream."""


class _Shown:
    """An event for pages: as it came, and from the first page on its frame."""

    __slots__ = ("_arrived", "_brief", "_frame", "agent", "data", "seq", "size", "subject")

    def __init__(self, arrived: ReceivedEvent) -> None:
        self.seq, self.agent, self.size = arrived.seq, arrived.agent, len(arrived.data)
        self.subject, self.data = arrived.subject, arrived.data
        self._arrived: ReceivedEvent | None = arrived
        self._frame = self._brief = b""

    def frame(self, kinds: frozenset[str] | None) -> bytes:
        """Its frame, that of few bytes where `kinds` are named; empty for another kind, and for what is no event: its
        consumers write the dead letters."""
        if kinds is not None and type_of(self.subject) not in kinds:
            return b""
        if self._arrived is not None:
            with contextlib.suppress(ContractViolationError):
                self._frame = frame(self._arrived.event, self.seq) or b""
                self._brief = brief(self._arrived.event, self.seq) or b""
            self._arrived = None
        return self._frame if kinds is None else self._brief


class LiveHub:
    """The ring buffer of frames, and the task that fills it. While no bus is attached pages wait; `state` says why."""

    def __init__(self) -> None:
        self.state = "starting"
        """`live`, or in a sentence why nothing comes."""
        self.last = 0
        """Everything up to this stream sequence is in the ring, or was."""
        self._floor = 0
        """Nothing up to this sequence is in the ring."""
        self._epoch = ""
        self._ring: deque[_Shown] = deque()
        """In the order of the stream."""
        self._size = 0
        """Bytes of its events as they came."""
        self._readers = 0
        """Pages that read."""
        self._shared_events: SharedSubscription | None = None
        self._filled = asyncio.Event()
        """Set when frames came for which pages have not been woken."""
        self._tick = asyncio.Event()
        """Set, and replaced by a new one, when pages are woken."""
        self._made: dict[tuple[int, str | None, frozenset[str] | None], PageUpdate] = {}
        """Updates of this tick by position: most pages are at the same one."""
        self.closed = False
        self.pages = 0
        """Streams that are open."""

    # -- filling -----------------------------------------------------------------------------------------------------

    async def follow(self, shared_events: SharedSubscription) -> None:
        """Take events from the bus; never returns. It continues behind the last one, or at the end of another stream.

        Raises BusError where the bus refuses the reading.
        """
        await self._begin(shared_events)
        self._shared_events = shared_events
        async with asyncio.TaskGroup() as group:
            try:
                group.create_task(self._look_after(shared_events), name="conch.dashboard.look")
                group.create_task(self._keep_ticking(), name="conch.dashboard.tick")
                async with shared_events.subscribe(SHOWN, after=self.last) as subscription:
                    while True:
                        for arrived in await subscription.get(BATCH):
                            self._add(arrived)
                        await asyncio.sleep(0)
            finally:
                self._shared_events = None

    async def _begin(self, shared_events: SharedSubscription) -> None:
        epoch = (await shared_events.bus.state()).epoch
        if epoch != self._epoch or shared_events.seq - self.last > MOST_READ:
            self._epoch, self.last, self._floor = epoch, shared_events.seq, shared_events.seq
            self._ring.clear()
            self._size = 0
            self._wake()
        self.say(LIVE)

    async def _look_after(self, shared_events: SharedSubscription) -> None:
        while True:
            away = shared_events.bus.refusal or "the bus does not answer; it is asked again and again"
            self.say(LIVE if shared_events.bus.connected else away)
            await asyncio.sleep(LOOK_SECONDS)

    async def _keep_ticking(self) -> None:
        """Wake the pages once something has come, with what comes just behind it, and then not for a tick."""
        while True:
            await self._filled.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._filled.clear()
            self._wake()
            await asyncio.sleep(TICK_SECONDS - GATHER_SECONDS)

    def _add(self, arrived: ReceivedEvent) -> None:
        self._filled.set()
        self._ring.append(_Shown(arrived))
        self._size += len(arrived.data)
        while len(self._ring) > (MOST_KEPT if self._readers else MOST_AT_ONCE) or self._size > MOST_BYTES:
            oldest = self._ring.popleft()
            self._floor, self._size = oldest.seq, self._size - oldest.size
        self.last = arrived.seq

    def say(self, state: str) -> None:
        """Set the state of the bus that pages show; the same state again changes nothing."""
        if state != self.state:
            self.state = state
            self._wake()

    def close(self) -> None:
        """End every page's stream. A second call does nothing."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        self._made.clear()
        self._tick.set()
        self._tick = asyncio.Event()

    # -- reading -----------------------------------------------------------------------------------------------------

    def behind(self, after: int, agent: str, kinds: Collection[type[Event]]) -> list[Event]:
        """Events of these types of the agent behind the sequence `after` that the ring has, the oldest first: what a
        store at that position does not know yet."""
        wanted = {subject_filter(kind, agent) for kind in kinds}
        found: list[Event] = []
        for shown in reversed(self._ring):
            if shown.seq <= after:
                break
            if shown.subject in wanted:
                with contextlib.suppress(ContractViolationError):
                    found.append(decoded(shown.subject, shown.data))
        return found[::-1]

    def newest(self, agent: str, kind: type[Event]) -> Event | None:
        """The newest event of this type of the agent that the ring has; None: it has none."""
        wanted = subject_filter(kind, agent)
        for shown in reversed(self._ring):
            if shown.subject == wanted:
                with contextlib.suppress(ContractViolationError):
                    return decoded(shown.subject, shown.data)
        return None

    async def news(
        self, after: int, agent: str | None = None, kinds: frozenset[str] | None = None
    ) -> AsyncIterator[PageUpdate]:
        """Updates behind the sequence `after`, of one agent or of all, as they come; until the hub is closed.
        `kinds`: types of events, whose frames alone come, of few bytes each; None: those of all types, whole.

        Each frame once, in the order of the stream. Something comes also when only `state` has changed.
        """
        self._readers += 1
        try:
            async with contextlib.aclosing(self._updates(after, agent, kinds)) as updates:
                async for update in updates:
                    yield update
        finally:
            self._readers -= 1

    async def _updates(self, after: int, agent: str | None, kinds: frozenset[str] | None) -> AsyncGenerator[PageUpdate]:
        state, epoch = None, self._epoch
        while not self.closed:
            tick = self._tick
            if self._epoch and (after > self.last or self._epoch != (epoch or self._epoch)):
                after = self.last
                yield PageUpdate(after, anew=True)
            epoch = self._epoch
            if after < self._floor:
                fresh = await self._read_back(after, agent, kinds)
            else:
                key = (after, agent, kinds)
                if (known := self._made.get(key)) is None:
                    known = self._made[key] = self._fresh(after, agent, kinds)
                fresh = known
            after = fresh.after
            if fresh.frames or fresh.missed or self.state != state:
                state = self.state
                yield fresh
            elif after >= self._floor:
                await tick.wait()

    def _fresh(self, after: int, agent: str | None, kinds: frozenset[str] | None) -> PageUpdate:
        """The update for a page whose position is in the ring."""
        found: list[bytes] = []
        missed = 0
        for shown in reversed(self._ring):
            if shown.seq <= after:
                break
            if agent not in (None, shown.agent):
                continue
            if len(found) == MOST_AT_ONCE:
                missed += 1
            elif made := shown.frame(kinds):
                found.append(made)
        return PageUpdate(self.last, b"".join(reversed(found)), missed)

    async def _read_back(self, after: int, agent: str | None, kinds: frozenset[str] | None) -> PageUpdate:
        """Frames that the ring no longer has, from the stream: the newest MOST_READ events up to where the ring
        begins."""
        floor, shared_events = self._floor, self._shared_events
        if shared_events is None or floor - after > MOST_READ:
            return PageUpdate(floor, missed=floor - after)
        found = []
        filters = [subject_filter(kind, agent or "*") for kind in SHOWN if kinds is None or kind.TYPE in kinds]
        if not filters:  # no filter is every subject
            return PageUpdate(floor)
        async for delivery in shared_events.bus.read(filters, after=after):
            if delivery.seq > floor:
                break
            with contextlib.suppress(ContractViolationError):
                event = decoded(delivery.subject, delivery.data)
                if (made := (frame if kinds is None else brief)(event, delivery.seq)) is not None:
                    found.append(made)
        return PageUpdate(floor, b"".join(found[-MOST_AT_ONCE:]), missed=max(0, len(found) - MOST_AT_ONCE))

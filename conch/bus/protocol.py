"""The bus: a stream of facts, readers, a key-value bucket with compare-and-set, requests beside it.

Every implementation passes one contract suite (tests/bus). All times are seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Stored(NamedTuple):
    """A publish acknowledgement: the stream has the event."""

    seq: int
    """Its place, from 1. Of the first copy, when it was a duplicate."""
    duplicate: bool


class Delivery(NamedTuple):
    """One event as the stream has it."""

    seq: int
    subject: str
    data: bytes
    time: float
    """When the stream stored it, seconds since the epoch."""


class OutgoingMessage(NamedTuple):
    """One event to be published."""

    subject: str
    data: bytes
    id: str
    """Derived from its cause: the same event twice has the same id."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What the stream holds."""

    first: int
    """Sequence of the oldest event; last + 1 when there is none."""
    last: int
    """Sequence of the newest event that there ever was; 0: none yet."""
    messages: int
    bytes: int
    epoch: str
    """Identity of the stream: another one when it was made anew."""

    @property
    def missing(self) -> int:
        """Events between first and last that are not there: trimming leaves no gaps, so these were damaged."""
        return self.last - self.first + 1 - self.messages


@dataclass(frozen=True, slots=True)
class ReaderState:
    """How far a durable of another program is. Conch makes none: its consumers keep their positions in the bucket."""

    name: str
    acknowledged: int
    """Everything up to here is acknowledged."""
    pending: int
    """Events that it has still to acknowledge."""
    delivered: int
    """The last event that was handed to it."""
    undelivered: int
    """Events behind that one."""
    redelivered: int
    """Events that were handed to it more than once and are not acknowledged yet: it, or its connection, was away."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A value of the key-value bucket."""

    value: bytes
    revision: int
    """For compare-and-set; 0 stands for «no such key»."""


class Reader(Protocol):
    """A reader's end."""

    async def get(self, most: int = 256) -> Sequence[Delivery]:
        """The next events in stream order: at least one, at most `most`. Waits for it, through reconnects."""
        ...


Responder = Callable[[str, bytes], Awaitable[bytes]]
"""(subject, request) -> reply."""


class Bus(Protocol):
    """A connection to the bus. Entered as a context; leaving flushes and closes it."""

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        """Store one event; returns when the stream has it (guarantee 1), however long the bus is gone.

        The same `id` again is stored once (`duplicate`). Waits while the window is full or the stream is. Raises
        BusError when it is refused for good: a subject outside `conch.v1.>`, more than a megabyte, or after the bus
        was left. Cancelled: it may or may not be stored; publish it again.
        """
        ...

    async def publish_many(self, messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
        """Store several events, in this order where none is refused; returns when the stream has all of them.

        Cheaper than one by one: nothing is made per event, and under strict durability they share one write to disk.
        Each is stored once, as by `publish`. Raises BusError when one is refused for good; the others may be stored.
        Cancelled: each may or may not be stored; publish them again.
        """
        ...

    def follow(self, filters: Sequence[str], *, after: int) -> AbstractAsyncContextManager[Reader]:
        """A reader of subjects matching any filter, from the first event behind sequence `after`.

        Entered: what is published from now on will be seen. Each event once, in stream order. It holds up no trimming.
        """
        ...

    def read(self, filters: Sequence[str], *, after: int = 0) -> AsyncIterator[Delivery]:
        """What the stream holds behind `after`, in order, up to its end as of now. Leaves no trace."""
        ...

    async def count(self, filters: Sequence[str], *, after: int) -> int:
        """How many events behind `after` match any of the filters, counted where they are: none is sent."""
        ...

    async def last(self, subject: str) -> Delivery | None:
        """The newest event of exactly this subject."""
        ...

    async def at(self, seq: int) -> Delivery | None:
        """The event at this place, or None when it is trimmed."""
        ...

    async def state(self) -> StreamState:
        """What the stream holds."""
        ...

    async def readers(self) -> Sequence[ReaderState]:
        """The durables that other programs have made on the stream, by name."""
        ...

    async def forget(self, name: str) -> None:
        """Remove a durable. Twice is once."""
        ...

    async def trim(self, before: int) -> None:
        """Drop the events before sequence `before`."""
        ...

    async def get(self, key: str) -> KeyValue | None:
        """A value of the bucket. Keys: letters, digits, `-`, `_`; parts, with `/` between them."""
        ...

    async def put(self, key: str, value: bytes, *, revision: int) -> int:
        """Write if the key is still at `revision` (0: absent); the new revision. Raises FencedError otherwise,
        BusError for a key that cannot be."""
        ...

    async def keys(self) -> Sequence[str]:
        """The keys there are."""
        ...

    async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
        """Ask whoever serves `subject`. Raises BusError when nobody does, when it fails, or not in time."""
        ...

    def serve(self, subject: str, respond: Responder) -> AbstractAsyncContextManager[None]:
        """Answer requests on `subject` (wildcards allowed) while entered, several at once.

        A responder that raises fails that request alone. Leaving finishes what is being answered.
        """
        ...

    @property
    def connected(self) -> bool:
        """Whether the bus answers now."""
        ...

    @property
    def refusal(self) -> str:
        """Why a bus that is there does not take us back, in a sentence; else empty."""
        ...

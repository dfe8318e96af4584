"""The protocol of the bus: an append-only stream of events, readers, a key-value bucket with compare-and-set, requests.

All implementations pass one contract suite (tests/bus). All times are in seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol


class Stored(NamedTuple):
    """A publish acknowledgement: the stream has the event."""

    seq: int
    """Its sequence, from 1; for a duplicate, the sequence of the first copy."""
    duplicate: bool


class Delivery(NamedTuple):
    """One event as stored in the stream."""

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
    """Idempotency key, derived from the event's cause: the same event published twice has the same id."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """First and last sequence, size and epoch of the stream."""

    first: int
    """Sequence of the oldest event; last + 1 when there is none."""
    last: int
    """Sequence of the newest event ever stored; 0: none yet."""
    messages: int
    bytes: int
    epoch: str
    """Identity of the stream: it changes when the stream is made again."""

    @property
    def missing(self) -> int:
        """Events missing between first and last: trimming leaves no gaps, so these were erased on request
        (`erased_between`) or lost to damage."""
        return self.last - self.first + 1 - self.messages


@dataclass(frozen=True, slots=True)
class ReaderState:
    """Position of another program's durable consumer. Conch makes none: its consumers keep positions in the bucket."""

    name: str
    acknowledged: int
    """The sequence up to which everything is acknowledged."""
    pending: int
    """Events that it has still to acknowledge."""
    delivered: int
    """Sequence of the last event that was delivered to it."""
    undelivered: int
    """Events after that one."""
    redelivered: int
    """Events that were delivered more than once and are not acknowledged yet: it, or its connection, was away."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A value of the key-value bucket."""

    value: bytes
    revision: int
    """For compare-and-set; 0 stands for an absent key."""


class Reader(Protocol):
    """A cursor on the stream, made by `Bus.follow`."""

    async def get(self, most: int = 256) -> Sequence[Delivery]:
        """The next events in stream order: at least one, at most `most`. Waits for it, through reconnects."""
        ...


Responder = Callable[[str, bytes], Awaitable[bytes]]
"""(subject, request) -> reply."""


class Bus(Protocol):
    """A connection to the bus. Entered as a context; leaving flushes and closes it."""

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        """Store one event; returns when the stream has it (guarantee 1), however long the bus is unreachable.

        The same `id` again is stored once (`duplicate`). Waits while the window or the stream is full. Raises BusError
        when it is refused permanently: a subject outside `conch.v1.>`, more than a megabyte, or after the bus was left.
        Cancelled: it may or may not be stored; publish it again.
        """
        ...

    async def publish_many(self, messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
        """Store several events, in this order unless one is refused; returns when the stream has all of them.

        Cheaper than single calls: no future per event, and under strict durability they share one write to disk. Each
        is stored once, as by `publish`. Raises BusError when one is refused permanently; the others may be stored.
        Cancelled: each may or may not be stored; publish them again.
        """
        ...

    def follow(self, filters: Sequence[str], *, after: int) -> AbstractAsyncContextManager[Reader]:
        """A reader of subjects that match any filter, from the first event after sequence `after`.

        Once entered, it sees everything that is published from then on: each event once, in stream order. It never
        blocks trimming.
        """
        ...

    def read(self, filters: Sequence[str], *, after: int = 0) -> AsyncIterator[Delivery]:
        """The events after `after`, in order, up to the stream's present end. Leaves no consumer on the server."""
        ...

    async def count(self, filters: Sequence[str], *, after: int) -> int:
        """How many events after `after` match any of the filters; counted by the server, no event is transferred."""
        ...

    async def last(self, subject: str) -> Delivery | None:
        """The newest event of exactly this subject."""
        ...

    async def at(self, seq: int) -> Delivery | None:
        """The event at this sequence, or None when it is trimmed."""
        ...

    async def state(self) -> StreamState:
        """First and last sequence, size and epoch of the stream."""
        ...

    async def readers(self) -> Sequence[ReaderState]:
        """The durable consumers that other programs have made on the stream, by name."""
        ...

    async def forget(self, name: str) -> None:
        """Remove a durable consumer. A second call does nothing."""
        ...

    async def trim(self, before: int) -> None:
        """Drop the events before sequence `before`."""
        ...

    async def erase(self, seqs: Sequence[int]) -> None:
        """Overwrite the events at these sequences in the stream's files. They leave holes, which the callers write
        down first (`record_erased`). A sequence without an event changes nothing."""
        ...

    async def rewrite(self, values: Mapping[str, bytes]) -> None:
        """Drop all values of the bucket, with what its files hold of earlier ones, and store these in their place.

        For a bucket that no other client writes to. Killed in between, keys are missing: call it again with the same
        values.
        """
        ...

    async def get(self, key: str) -> KeyValue | None:
        """A value of the bucket. Keys: letters, digits, `-`, `_`; parts are separated by `/`."""
        ...

    async def put(self, key: str, value: bytes, *, revision: int) -> int:
        """Write if the key is still at `revision` (0: absent); returns the new revision. Raises FencedError otherwise,
        BusError for an invalid key."""
        ...

    async def keys(self) -> Sequence[str]:
        """All keys of the bucket."""
        ...

    async def put_object(self, name: str, file: BinaryIO) -> None:
        """Keep a file's content, from its beginning, under a name like a key's, in place of an earlier one. The same
        again changes nothing. Raises BusError where the server takes no more."""
        ...

    async def get_object(self, name: str, file: BinaryIO, *, most: int) -> bool:
        """Write the content under `name` to `file`; False where there is none. Raises BusError where it has more than
        `most` bytes, or is not whole: part of it may be written then."""
        ...

    async def objects(self) -> Sequence[str]:
        """The names of all objects, sorted."""
        ...

    async def drop_object(self, name: str) -> None:
        """Remove the object; one that is not there is no error."""
        ...

    async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
        """Send a request to `subject`. Raises NoResponderError without a responder, BusError if that fails, or after
        `timeout`."""
        ...

    def serve(self, subject: str, respond: Responder) -> AbstractAsyncContextManager[None]:
        """Answer requests on `subject` (wildcards allowed) while entered, several concurrently.

        A responder that raises fails that request alone. Leaving waits for the requests that are being answered.
        """
        ...

    @property
    def connected(self) -> bool:
        """Whether the bus is reachable now."""
        ...

    @property
    def refusal(self) -> str:
        """Why a reachable server refuses this client, in a sentence; otherwise empty."""
        ...

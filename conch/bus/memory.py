"""The bus in memory, within one process, with JetStream's semantics: for tests and notebooks.

The journal is an object that outlives the bus: a new bus over the same journal is a restart after a crash.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Self

from conch.bus.admit import admit, admit_key, admit_request, admit_size
from conch.bus.protocol import Delivery, KeyValue, OutgoingMessage, Reader, ReaderState, Responder, Stored, StreamState
from conch.errors import BusError, FencedError, NoResponderError


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject filter matches a subject: `*` one token, `>` the rest (at least one)."""
    wanted, parts = pattern.split("."), subject.split(".")
    for place, part in enumerate(wanted):
        if part == ">":
            return len(parts) > place
        if place >= len(parts) or part not in ("*", parts[place]):
            return False
    return len(wanted) == len(parts)


@dataclass
class MemoryJournal:
    """The stored events and keys of a memory bus. A new bus over the same journal continues where the old one ended."""

    events: dict[int, Delivery] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    bucket: dict[str, KeyValue] = field(default_factory=dict)
    durables: dict[str, MemoryDurableReader] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    last: int = 0
    first: int = 1
    revision: int = 0
    epoch: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class MemoryDurableReader:
    """A durable consumer of another program: its filter and its position."""

    filters: tuple[str, ...]
    acknowledged: int


class MemoryBus:
    """The bus in memory; see `conch.bus.protocol.Bus`. With `most` events stored, publishers wait for a trim."""

    def __init__(self, journal: MemoryJournal | None = None, *, most: int = 1_000_000) -> None:
        self.journal = journal if journal is not None else MemoryJournal()
        self._most = most
        self._changed = asyncio.Condition()
        self._responders: list[tuple[str, Responder]] = []
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._changed:
            self._open = False
            self._changed.notify_all()

    @property
    def connected(self) -> bool:
        """Always true while entered."""
        return self._open

    @property
    def refusal(self) -> str:
        """Always empty: there is no server that could refuse."""
        return ""

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        """Store one event; see the protocol."""
        admit(subject, data)
        journal = self.journal
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._open or id in journal.ids or len(journal.events) < self._most
            )
            if not self._open:
                raise BusError("the bus was left")
            if (known := journal.ids.get(id)) is not None:
                return Stored(known, duplicate=True)
            journal.last += 1
            journal.ids[id] = journal.last
            journal.events[journal.last] = Delivery(journal.last, subject, data, time.time())
            self._changed.notify_all()
            return Stored(journal.last, duplicate=False)

    async def publish_many(self, messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
        """Store several events; see the protocol."""
        for message in messages:
            admit(message.subject, message.data)
        return [await self.publish(*message[:2], id=message.id) for message in messages]

    def forget_ids(self) -> None:
        """Forget the known ids, as a server does after its dedupe window."""
        self.journal.ids.clear()

    @asynccontextmanager
    async def follow(self, filters: Sequence[str], *, after: int) -> AsyncIterator[Reader]:
        """A reader; see the protocol."""
        yield _MemoryReader(self, tuple(filters), after)

    async def read(self, filters: Sequence[str], *, after: int = 0) -> AsyncIterator[Delivery]:
        """The events after `after`, up to the journal's present end."""
        for seq in range(max(after + 1, self.journal.first), self.journal.last + 1):
            event = self.journal.events.get(seq)
            if event is not None and any(matches(pattern, event.subject) for pattern in filters):
                yield event

    async def count(self, filters: Sequence[str], *, after: int) -> int:
        """How many events after `after` match."""
        return len([1 async for _ in self.read(filters, after=after)])

    async def last(self, subject: str) -> Delivery | None:
        """The newest event of exactly this subject."""
        return next((event for event in reversed(self.journal.events.values()) if event.subject == subject), None)

    async def at(self, seq: int) -> Delivery | None:
        """The event at this sequence."""
        return self.journal.events.get(seq)

    async def state(self) -> StreamState:
        """First and last sequence, size and epoch of the journal."""
        journal = self.journal
        size = sum(len(event.data) for event in journal.events.values())
        return StreamState(journal.first, journal.last, len(journal.events), size, journal.epoch)

    async def readers(self) -> Sequence[ReaderState]:
        """The durables of other programs, by name; nothing is delivered to them here."""
        found = []
        for name, durable in sorted(self.journal.durables.items()):
            place, left = durable.acknowledged, await self.count(durable.filters, after=durable.acknowledged)
            found.append(ReaderState(name, place, left, place, left, redelivered=0))
        return found

    async def forget(self, name: str) -> None:
        """Remove a durable."""
        self.journal.durables.pop(name, None)

    async def trim(self, before: int) -> None:
        """Drop the events before sequence `before`."""
        async with self._changed:
            for seq in [seq for seq in self.journal.events if seq < before]:
                del self.journal.events[seq]
            self.journal.first = max(self.journal.first, min(before, self.journal.last + 1))
            self._changed.notify_all()

    async def erase(self, seqs: Sequence[int]) -> None:
        """Overwrite events; see the protocol."""
        for seq in seqs:
            self.journal.events.pop(seq, None)

    async def rewrite(self, values: Mapping[str, bytes]) -> None:
        """Replace the bucket's values; see the protocol."""
        self.journal.bucket.clear()
        for key, value in values.items():
            await self.put(key, value, revision=0)

    async def get(self, key: str) -> KeyValue | None:
        """A value of the bucket."""
        return self.journal.bucket.get(key)

    async def put(self, key: str, value: bytes, *, revision: int) -> int:
        """Write if the key is still at `revision`; see the protocol."""
        admit_key(key)
        admit_size(key, value)
        now = self.journal.bucket.get(key)
        if (now.revision if now is not None else 0) != revision:
            raise FencedError(f"{key} was written by another copy since revision {revision}")
        self.journal.revision += 1
        self.journal.bucket[key] = KeyValue(value, self.journal.revision)
        return self.journal.revision

    async def keys(self) -> Sequence[str]:
        """All keys of the bucket."""
        return sorted(self.journal.bucket)

    async def put_object(self, name: str, file: BinaryIO) -> None:
        """Keep a file's content; see the protocol."""
        admit_key(name)
        self.journal.objects[name] = file.read()

    async def get_object(self, name: str, file: BinaryIO, *, most: int) -> bool:
        """Write an object's content to a file; see the protocol."""
        admit_key(name)
        data = self.journal.objects.get(name)
        if data is not None and len(data) > most:
            raise BusError(f"the object {name} has {len(data)} bytes, at most {most} are read")
        file.write(data or b"")
        return data is not None

    async def objects(self) -> Sequence[str]:
        """The names of all objects."""
        return sorted(self.journal.objects)

    async def drop_object(self, name: str) -> None:
        """Remove an object; see the protocol."""
        self.journal.objects.pop(name, None)

    async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
        """Send a request to the responder at `subject`; see the protocol."""
        admit_request(subject)
        for pattern, respond in self._responders:
            if matches(pattern, subject):
                try:
                    async with asyncio.timeout(timeout):
                        return await respond(subject, data)
                except TimeoutError:
                    raise BusError(f"no reply on {subject} within {timeout:g} s") from None
                except Exception as error:
                    raise BusError(f"{subject} failed: {type(error).__name__}: {error}") from error
        raise NoResponderError(f"nobody answers on {subject}")

    @asynccontextmanager
    async def serve(self, subject: str, respond: Responder) -> AsyncIterator[None]:
        """Answer requests on `subject` while entered."""
        entry = (subject, respond)
        self._responders.append(entry)
        try:
            yield
        finally:
            self._responders.remove(entry)


class _MemoryReader:
    def __init__(self, bus: MemoryBus, filters: tuple[str, ...], after: int) -> None:
        self._bus, self._filters, self._last = bus, filters, after

    async def get(self, most: int = 256) -> Sequence[Delivery]:
        changed = self._bus._changed
        while True:
            async with changed:
                found = self._next(most)
                if found:
                    self._last = found[-1].seq
                    return found
                await changed.wait()

    def _next(self, most: int) -> list[Delivery]:
        journal, found = self._bus.journal, []
        for seq in range(max(self._last + 1, journal.first), journal.last + 1):
            event = journal.events.get(seq)
            if event is not None and any(matches(pattern, event.subject) for pattern in self._filters):
                found.append(event)
                if len(found) == most:
                    break
        return found

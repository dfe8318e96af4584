"""Detects a stream that was replaced, damaged or cut back since it was last read, and rewinds positions beyond its end.

Runs right after the server has started, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from conch.bus import checkpoints
from conch.bus.protocol import Bus, KeyValue, StreamState
from conch.errors import ContractError, FencedError
from conch.log import get_logger
from conch.tasks import concurrently

log = get_logger(__name__)

Spans = tuple[tuple[int, int], ...]
"""(first, last) of runs of sequences."""


@dataclass(frozen=True)
class Reconciliation:
    """Differences between the stream and what the experience store has read of it."""

    stream: StreamState
    store_position: int
    another: bool
    """The stream was made again: the store's sequences refer to another stream."""
    lost: int
    """Events at its end that the store has read and the stream no longer has."""
    unread: int
    """Events at the stream's beginning that are gone before the store has read them."""
    missing: int
    """Events that are gone between the stream's first and last, and were not erased."""
    untrimmed: int
    """Events at the stream's beginning that are gone without having been trimmed or erased, read or not."""
    taken_back: tuple[str, ...]
    """Keys of the bucket with a position beyond the stream's end, rewound to it."""

    @property
    def position(self) -> int:
        """The position from which the store goes on reading."""
        return 0 if self.another else min(self.store_position, self.stream.last)

    @property
    def whole(self) -> bool:
        """Whether no difference was found."""
        return not (self.another or self.lost or self.unread or self.missing or self.untrimmed)

    @property
    def sentence(self) -> str:
        """The differences in one sentence; empty when there are none."""
        if self.another:
            return (
                f"the stream is not the one that the store has read up to {self.store_position}: it was made anew and "
                f"holds {self.stream.messages} events; the store keeps what it has joined and reads it from its start"
            )
        said = []
        if self.lost:
            said.append(f"its last {self.lost} events are gone (the store has read up to {self.store_position})")
        if self.untrimmed:
            said.append(f"its first {self.untrimmed} events are gone and were not trimmed")
        if self.unread:
            said.append(f"{self.unread} events are gone that the store had not read")
        if self.missing:
            said.append(f"{self.missing} events between {self.stream.first} and {self.stream.last} are damaged or gone")
        if not said:
            return ""
        kept = "; what the store has joined of them is kept" if self.untrimmed or self.missing else ""
        return f"the stream ends at {self.stream.last} and is damaged: " + ", ".join(said) + kept


async def reconcile(bus: Bus, store_position: int, store_epoch: str) -> Reconciliation:
    """Compare the stream with what the store has read (`store_epoch` empty: nothing), and rewind positions beyond the
    end.

    A consumer's or agent's position beyond the stream's end would skip what is appended later: it is set to the end.
    Other processes may be at work: what they write meanwhile is left alone. A second call changes nothing.
    """
    stream = await bus.state()
    kept = [key for key in await bus.keys() if checkpoints.names_position(key)]
    taken = await concurrently(lambda key: _take_back(bus, key, stream), kept)
    taken_back = [key for key, was in zip(kept, taken, strict=True) if was]
    another = bool(store_epoch) and store_epoch != stream.epoch
    erased = await _erased(bus, stream)
    same = bool(store_epoch) and not another
    found = Reconciliation(
        stream=stream,
        store_position=store_position,
        another=another,
        lost=max(0, store_position - stream.last) if same else 0,
        unread=_gone(stream, store_position + 1, erased) if same else 0,
        missing=max(0, stream.missing - _count(erased, stream.first, stream.last)),
        untrimmed=await _untrimmed(bus, stream, erased),
        taken_back=tuple(taken_back),
    )
    if not found.whole:
        log.error("bus.stream_damaged", why=found.sentence, taken_back=found.taken_back)
    return found


async def report_trimmed(bus: Bus, before: int, epoch: str) -> None:
    """Write down that the events before this one go, before they do."""
    entry, record = await bus.get(checkpoints.TRIMMED), checkpoints.TrimRecord(before=before, epoch=epoch)
    if entry is None or _trimmed(entry) != record:
        revision = entry.revision if entry is not None else 0
        await bus.put(checkpoints.TRIMMED, record.encode(), revision=revision)


async def record_erased(bus: Bus, seqs: Iterable[int]) -> None:
    """Write down that the events at these sequences are erased, before they are. A second time changes nothing."""
    stream = await bus.state()
    entry, known = await bus.get(checkpoints.ERASED), await _erased(bus, stream)
    places = {seq for first, last in known for seq in range(max(first, stream.first), last + 1)} | set(seqs)
    spans: list[tuple[int, int]] = []
    for seq in sorted(places):
        if spans and spans[-1][1] == seq - 1:
            spans[-1] = (spans[-1][0], seq)
        else:
            spans.append((seq, seq))
    record = checkpoints.EraseRecord(epoch=stream.epoch, spans=tuple(spans))
    await bus.put(checkpoints.ERASED, record.encode(), revision=entry.revision if entry is not None else 0)


async def erased_between(bus: Bus, stream: StreamState) -> int:
    """How many of the events that are missing between the stream's first and last were erased."""
    return _count(await _erased(bus, stream), stream.first, stream.last)


async def _erased(bus: Bus, stream: StreamState) -> Spans:
    entry = await bus.get(checkpoints.ERASED)
    try:
        record = checkpoints.EraseRecord.decode(entry.value) if entry is not None else None
    except ContractError:
        return ()
    return record.spans if record is not None and record.epoch == stream.epoch else ()


def _count(spans: Spans, first: int, last: int) -> int:
    """How many sequences of the spans lie between these two."""
    return sum(max(0, min(end, last) - max(begin, first) + 1) for begin, end in spans)


def _gone(stream: StreamState, first: int, erased: Spans) -> int:
    """Events from `first` on that are gone before the stream's first one, and were not erased."""
    return max(0, stream.first - first - _count(erased, first, stream.first - 1))


async def _untrimmed(bus: Bus, stream: StreamState, erased: Spans) -> int:
    """Events at the beginning that went by themselves since this was asked last: said once, it is how it stands."""
    record = _trimmed(await bus.get(checkpoints.TRIMMED))
    # None: a stream of before this was written down.
    before = record.before if record is not None and record.epoch == stream.epoch else stream.first
    if before <= stream.first:
        with suppress(FencedError):  # another process that checked at the same moment recorded it
            await report_trimmed(bus, stream.first, stream.epoch)
    return _gone(stream, before, erased)


def _trimmed(entry: KeyValue | None) -> checkpoints.TrimRecord | None:
    try:
        return checkpoints.TrimRecord.decode(entry.value) if entry is not None else None
    except ContractError:
        return None


async def _take_back(bus: Bus, key: str, stream: StreamState) -> bool:
    """Whether the position under `key` led the stream."""
    entry = await bus.get(key)
    if entry is None or checkpoints.rewind(entry.value, stream) is None:
        return False
    # Where others are at work it was written since the stream was looked at.
    value = checkpoints.rewind(entry.value, await bus.state())
    if value is None:
        return False
    try:
        await bus.put(key, value, revision=entry.revision)
    except FencedError:
        return False  # another process writes it at this moment
    return True

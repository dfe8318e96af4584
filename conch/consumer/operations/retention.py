"""Retention: trims the stream as far as all consumers have read it, and names those that delay the trimming."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from conch.bus import Bus, Checkpoint, StreamState, beyond, memory_agent, older_than, report_trimmed
from conch.config.model import StreamRetentionSettings
from conch.consumer.group.lag import standings
from conch.errors import BusError, ContractError, StoreError
from conch.experience import StoreLocation
from conch.log import get_logger
from conch_schemas import agent_filter

log = get_logger(__name__)

KEEP_SECONDS = 60.0
"""Time between two trimmings."""
WARN_SHARE, WARN_DAYS = 0.5, 2.0
"""A share of the retention limit, and days: a consumer that has left this much unread, or for this long, is
reported."""
OUTWARD = frozenset({"mqtt"})
"""Consumers that wait for an outside system, which may be away for good. What they have not read is kept however old it
is, but not beyond the space limit of the stream. They continue behind what was trimmed and report what they missed."""


@dataclass(frozen=True)
class RetentionBlocker:
    """A consumer that delays the trimming, or soon will."""

    name: str
    """A consumer, or `agent/NAME`."""
    seq: int
    """Sequence up to which it has read, of `last`."""
    last: int
    blocked: int
    """Events that are due to go and stay for it, at most; 0: none yet."""

    @property
    def sentence(self) -> str:
        """A sentence about what it delays, and what to do."""
        held = f"{self.blocked} events that bus.keep would drop stay for it" if self.blocked else "nothing waits yet"
        until = "trimmed beyond bus.keep.gib alone" if self.name in OUTWARD else "never trimmed"
        return (
            f"{self.name} is far behind, at {self.seq} of {self.last}, and what it has not read is {until} ({held}): "
            f"run it, or, if it is gone for good, conch consumer forget {self.name}"
        )


@dataclass(frozen=True)
class RetentionStatus:
    """The result of one trimming: how far it went, and what delays it."""

    before: int
    """Events before this sequence are read by all consumers and may be removed."""
    held: tuple[RetentionBlocker, ...]
    """The consumers that delay the trimming or soon will, the one that delays it most first."""


async def keep_trimmed(bus: Bus, settings: StreamRetentionSettings, store: StoreLocation) -> None:
    """Trim now and every KEEP_SECONDS, until cancelled. A time that fails is logged: the next one makes up for it."""
    said: set[tuple[str, bool]] = set()
    while True:
        try:
            found = await trim(bus, settings, store)
            now = {(one.name, one.blocked > 0) for one in found.held}
            for one in found.held:
                if (one.name, one.blocked > 0) not in said:
                    log.warning("bus.keep_held", consumer=one.name, why=one.sentence)
            said = now
        except BusError as error:
            log.warning("bus.keep_failed", error=str(error))
        await asyncio.sleep(KEEP_SECONDS)


async def trim(
    bus: Bus, settings: StreamRetentionSettings, store: StoreLocation | None, *, now: float | None = None
) -> RetentionStatus:
    """Trim once and return the status. `store`: the one whose position counts beside the one that the store
    reports."""
    stream = await bus.state()
    found = await look(bus, settings, store, now=now)
    if found.before > stream.first:
        await report_trimmed(bus, found.before, stream.epoch)
        await bus.trim(found.before)
        log.info("bus.trimmed", before=found.before, events=stream.messages - (await bus.state()).messages)
    return found


async def look(
    bus: Bus, settings: StreamRetentionSettings, store: StoreLocation | None = None, *, now: float | None = None
) -> RetentionStatus:
    """The status of the trimming, without a trim. `now`: seconds since the epoch."""
    stream = await bus.state()  # before the positions: later events are unread
    days, gib = min(WARN_DAYS, settings.days * WARN_SHARE), settings.gib * WARN_SHARE
    near = max(await older_than(bus, stream, days=days, now=now), beyond(stream, gib=gib))
    if not stream.messages or near <= stream.first:
        return RetentionStatus(stream.first, ())
    old, large = await older_than(bus, stream, days=settings.days, now=now), beyond(stream, gib=settings.gib)
    read = await _read(bus, stream, store)
    inside = min(seq for name, seq in read.items() if name not in OUTWARD)
    late = sorted((seq, name) for name, seq in read.items() if seq + 1 < near)
    return RetentionStatus(
        before=max(min(old, min(read.values()) + 1), min(large, inside + 1)),
        held=tuple(_held(name, seq, stream, old, large) for seq, name in late),
    )


def _held(name: str, seq: int, stream: StreamState, old: int, large: int) -> RetentionBlocker:
    gone, stays = (old, max(seq + 1, large, stream.first)) if name in OUTWARD else (max(old, large), seq + 1)
    return RetentionBlocker(name, seq, stream.last, max(0, gone - max(stays, stream.first)))


async def _read(bus: Bus, stream: StreamState, store: StoreLocation | None) -> dict[str, int]:
    """The sequence up to which each consumer has read. A consumer with nothing left to read counts as at the end."""
    read = {one.name: one.seq if one.lag else stream.last for one in await standings(bus)}
    for key in await bus.keys():
        agent = memory_agent(key)
        entry = await bus.get(key) if agent is not None else None
        if agent is not None and entry is not None and entry.value:
            read[key] = await _remembered(bus, stream, agent, entry.value)
    joined = await asyncio.to_thread(_joined, store, stream.epoch) if store is not None else None
    if joined is not None:
        read["store"] = min(read.get("store", stream.last), joined)
    return {"store": 0} | read  # acts that are not joined yet are not removed


async def _remembered(bus: Bus, stream: StreamState, agent: str, value: bytes) -> int:
    """The sequence up to which an agent's checkpoint holds all its events; 0 where it cannot be read."""
    try:
        seq = Checkpoint.decode(value).position(stream)
    except ContractError:
        return 0
    waits = seq < stream.last and await bus.count([agent_filter(agent)], after=seq)
    return seq if waits else stream.last


def _joined(store: StoreLocation, epoch: str) -> int | None:
    """The position of the store in this stream; None without a store, 0 for one that cannot be read."""
    try:
        if not store.exists():
            return None
        reader = store.reader()
    except StoreError:
        return 0
    try:
        return reader.position() if reader.epoch() == epoch else 0
    finally:
        reader.close()

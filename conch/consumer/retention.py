"""Trimming the stream while a run goes on: once a minute, what everybody has read and the store has joined."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import structlog

from conch.bus import Bus
from conch.bus.keep import keep
from conch.config.model import KeepSettings
from conch.errors import BusError, StoreError

log = structlog.get_logger(__name__)

KEEP_SECONDS = 60.0
"""Time between two trimmings."""


async def keep_trimmed(bus: Bus, settings: KeepSettings, store: Path) -> None:
    """Trim now and every KEEP_SECONDS, until cancelled. A time that fails is logged: the next one makes up for it."""
    while True:
        try:
            await keep(bus, days=settings.days, gib=settings.gib, floor=await _floor(bus, store))
        except BusError as error:
            log.warning("bus.keep_failed", error=str(error))
        await asyncio.sleep(KEEP_SECONDS)


async def _floor(bus: Bus, store: Path) -> int:
    """What the store has joined and every agent's written memory contains; 0, so nothing goes, without a store."""
    joined = await asyncio.to_thread(_joined, store, (await bus.state()).epoch)
    written = [await bus.get(key) for key in await bus.keys() if key.startswith("agent/")]
    return min(joined, *(int(json.loads(entry.value)["seq"]) for entry in written if entry is not None))


def _joined(store: Path, epoch: str) -> int:
    """The store's place in this stream; 0 while there is none, or none that can be read: the store itself says so."""
    from conch.experience import SqliteReader

    try:
        reader = SqliteReader(store)
    except StoreError:
        return 0
    try:
        return reader.position() if reader.epoch() == epoch else 0
    finally:
        reader.close()

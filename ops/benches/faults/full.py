"""No room: in the stream, on the disk."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from runs import fresh_home

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from faults.row import TOKEN, Row
from tests.faults.load import message

PUBLISHERS = 20
STANDS = 0.4
"""Seconds without an acknowledgement: there is no room."""


class _Publishing:
    """Publishers that go on until they are ended, and what they were told."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._over = bus, False
        self.acknowledged: dict[str, int] = {}
        self._tasks = [asyncio.create_task(self._publish(f"one-{place}")) for place in range(PUBLISHERS)]

    async def _publish(self, agent: str) -> None:
        number = 0
        while not self._over:
            number += 1
            events = [message(f"{agent}-{number}", place) for place in range(1 + number % 2 * 9)]
            stored = await self._bus.publish_many(events)
            self.acknowledged |= {event.id: where.seq for event, where in zip(events, stored, strict=True)}

    async def stand(self) -> None:
        """Until nothing is acknowledged any more."""
        before = -1
        while before < len(self.acknowledged):
            before = len(self.acknowledged)
            await asyncio.sleep(STANDS)

    async def go_on(self) -> float:
        """Seconds until something is acknowledged again."""
        before, began = len(self.acknowledged), time.perf_counter()
        async with asyncio.timeout(60):
            while len(self.acknowledged) == before:
                await asyncio.sleep(0.002)
        return time.perf_counter() - began

    async def end(self) -> None:
        """All that is on its way is acknowledged. There must be room."""
        self._over = True
        async with asyncio.timeout(60):
            await asyncio.wait(self._tasks)


async def _filled(
    row: Row, times: int, server: EmbeddedServer, most: int, make_room: Callable[..., Awaitable[None]]
) -> Row:
    """Let it fill, make room, again and again; `make_room(bus, last)`: the last time, enough for all to end."""
    there: dict[int, bytes] = {}
    async with JetStreamBus(Access(server.url, token=TOKEN), strict=True, max_bytes=most) as bus:
        publishing = _Publishing(bus)
        for number in range(times):
            await publishing.stand()
            there |= {found.seq: found.data async for found in bus.read(["conch.v1.>"])}
            publishing._over = number == times - 1
            await make_room(bus)
            row.seconds.append(await publishing.go_on())
            row.injected += 1
        await publishing.end()
        there |= {found.seq: found.data async for found in bus.read(["conch.v1.>"])}
    row.lost = sum(id.encode() not in there.get(seq, b"") for id, seq in publishing.acknowledged.items())
    row.doubled = sum(times - 1 for times in Counter(there.values()).values())
    return row


async def stream_full(times: int) -> Row:
    """Room is made by trimming all there is."""

    async def trim(bus: Bus) -> None:
        await bus.trim((await bus.state()).last + 1)

    with fresh_home() as place:
        server = EmbeddedServer(Path(place) / "nats", token=TOKEN, strict=True, max_bytes=2**30)
        await server.start()
        try:
            return await _filled(Row("stream full, then trimmed"), times, server, 200_000, trim)
        finally:
            await server.stop()


async def disk_full(times: int) -> Row:
    """Room is made by growing the file system; then the server is started again. Needs root."""
    size = 3
    row = Row("disk full, then room and a restart")
    with fresh_home() as home:
        place = Path(home) / "disk"
        place.mkdir()
        if os.geteuid() != 0 or not _mounted("-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(place)):
            return row
        server = EmbeddedServer(place / "nats", token=TOKEN, strict=True, max_bytes=2**32)

        async def grow(_: Bus) -> None:
            nonlocal size
            size += 3 if row.injected < times - 1 else 100
            _mounted("-o", f"remount,size={size}m", str(place))
            await server.stop()
            await server.start()

        try:
            await server.start()
            return await _filled(row, times, server, -1, grow)
        finally:
            await server.stop()
            subprocess.run(["umount", "-l", str(place)], check=False)


def _mounted(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


FAULTS = [(0.5, stream_full), (0.1, disk_full)]

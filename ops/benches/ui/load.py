"""150 pages open, 20 events a second: what share of a core the dashboard takes, how late a frame comes, and whether
pages that stop reading delay the others. Beside it the way in which sse-starlette's own guide does it: a queue and an
encoding for each page.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from runs import percentile

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.text import cut
from conch_schemas import Action, ActionTaken, Outcome, action_id, cycle_event_id, encode, source_of, subject_of
from ui.peer import peer
from ui.shown import TOKEN, Shown, dashboard, server


class Size(NamedTuple):
    """How large a measurement is."""

    pages: int
    """Pages that read."""
    stuck: int
    """Pages that stop reading."""
    seconds: float


WHOLE, QUICK = Size(150, 15, 20.0), Size(10, 2, 2.0)
RATE = 20.0
"""Events a second."""
UID = "0b6c2b0e-7f55-4a3e-9a54-35a5f7b1d0aa"
TAIL = 32
"""Bytes in which the words of a frame may have begun."""
_SENT = re.compile(rb"sent at (\d{16})")


def fact(cycle: int) -> ActionTaken:
    """An act of some 2.5 KB whose words say when it was sent, in microseconds."""
    action = action_id(UID, cycle)
    words = f"sent at {time.time_ns() // 1000} "
    return ActionTaken(
        id=cycle_event_id(action, ActionTaken), source=source_of("echo", UID), agent="echo", cycle=cycle,
        action_id=action, subject=action, action=Action(kind="DO_NOTHING", valid=True, text=words), raw=words * 30,
        raw_length=1, raw_sha256="0" * 64, outcome=Outcome(status="none", output=cut(words * 30)),
        needs={"curiosity": 0.5}, model="m", ms={"think": 1.0},
    )  # fmt: skip


class Page:
    """A connection to the live stream that notes how late each frame comes."""

    def __init__(self) -> None:
        self.late: list[float] = []
        """Milliseconds."""

    async def read(self, port: int) -> None:
        """For ever."""
        reader, _writer = await opened(port)
        buffer = b""
        while chunk := await reader.read(65536):
            now = time.time_ns() // 1000
            buffer += chunk
            end = 0
            for found in _SENT.finditer(buffer):
                self.late.append((now - int(found[1])) / 1000)
                end = found.end()
            buffer = buffer[max(end, len(buffer) - TAIL) :]


async def opened(port: int, room: int = 2**20) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which the live stream was asked for; `room`: bytes that are taken unread."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=room)
    writer.write(
        f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    return reader, writer


async def measure(name: str, shown: Shown, bus: Bus, size: Size, stuck: int, start: int) -> None:
    """One row: so many pages read, and so many more do not."""
    pages = [Page() for _ in range(size.pages)]
    async with AsyncExitStack() as stack:
        reading = [asyncio.create_task(page.read(shown.port)) for page in pages]
        for _ in range(stuck):
            _, writer = await opened(shown.port, room=1)
            stack.callback(writer.close)
        await asyncio.sleep(2)
        before, began = shown.cpu_seconds(), time.perf_counter()
        sent = await _offer(bus, start, size.seconds)
        took = time.perf_counter() - began
        await asyncio.sleep(1)
        share = (shown.cpu_seconds() - before) / took
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    lost = sum(sent - len(page.late) for page in pages)
    _tell(name, share, [ms for page in pages for ms in page.late], lost)


async def _offer(bus: Bus, start: int, seconds: float) -> int:
    count = int(RATE * seconds)
    began = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
        act = fact(start + number)
        await bus.publish(subject_of(act), encode(act), id=act.id)
    return count


def _tell(name: str, share: float, late: Sequence[float], lost: int) -> None:
    p50, p99 = statistics.median(late), percentile(late, 0.99)
    print(
        f"{name:<44} {share:6.1%} of a core   frame late p50 {p50:6.1f} ms  p99 {p99:6.1f} ms   lost {lost}", flush=True
    )


async def main(*, quick: bool = False) -> None:
    """Three rows."""
    size = QUICK if quick else WHOLE
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        place = Path(directory)
        async with server(place / "nats") as nats:
            access = Access(nats.access.address, token=nats.access.token)
            async with JetStreamBus(access, name="bench") as bus:
                print(f"{size.pages} pages, {RATE:g} events a second for {size.seconds:g} s", flush=True)
                async with dashboard(place / "home", nats) as shown:
                    await measure("Conch", shown, bus, size, 0, 0)
                    await measure(
                        f"Conch, beside {size.stuck} pages that stop reading", shown, bus, size, size.stuck, 10_000
                    )
                async with peer(nats) as other:
                    await measure("a queue and an encoding a page", other, bus, size, 0, 20_000)

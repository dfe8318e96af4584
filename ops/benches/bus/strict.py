"""Strict durability: producers that each wait until their own event is on disk."""

from __future__ import annotations

import asyncio
import time

from bus import raw
from bus.events import payload
from bus.figures import Figures
from bus.publish import SUBJECT, messages
from bus.server import Server
from bus.stream import Stream, opened

SIZE = 1024
SECONDS = 1.0
WAITING = (1, 16, 64, 256, 1024)
GOAL = {256: 8.0}


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Each number of waiting producers, each mode in turn, `times` times over, for `share` of a second each."""
    with Server(strict=True) as server:
        async with opened(server) as stream:
            for _ in range(times):
                for waiting in WAITING:
                    name, goal = f"strict, {waiting:,} waiting", GOAL.get(waiting)
                    await stream.empty()
                    figures.add(name, "Conch publish", await conch(stream, waiting, SECONDS * share), ours=True)
                    await stream.empty()
                    single = await asyncio.to_thread(
                        raw.steady, server.port, SUBJECT, payload(SIZE), waiting=waiting, seconds=SECONDS * share
                    )
                    figures.add(name, "one fsync a message, the server's limit", single, goal=goal)


async def conch(stream: Stream, waiting: int, seconds: float) -> float:
    """Events a second."""
    data, stored = payload(SIZE), 0
    began = time.perf_counter()

    async def produce() -> None:
        nonlocal stored
        while True:
            [message] = messages(data, 1)
            await stream.bus.publish(message.subject, message.data, id=message.id)
            stored += 1
            if time.perf_counter() - began >= seconds:
                return

    await asyncio.gather(*(produce() for _ in range(waiting)))
    rate = stored / (time.perf_counter() - began)
    if (there := (await stream.bus.state()).messages) != stored:
        raise SystemExit(f"{there} events are on the stream, {stored} were acknowledged")
    return rate

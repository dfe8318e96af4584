"""Durable publish: until the stream has acknowledged every event."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from bus import raw
from bus.events import payload
from bus.figures import Figures
from bus.raw import Span
from bus.server import Server
from bus.stream import Stream, opened
from conch.bus import OutgoingMessage

SUBJECT = "conch.v1.bench.action.taken"
WINDOW = 1000
PRODUCERS = 256
_ids = itertools.count()


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Both sizes, each mode in turn, `times` times over. `share` of the usual number of events."""
    with Server() as server:
        async with opened(server) as stream:
            for _ in range(times):
                for size in (512, 2048):
                    await _each_mode(figures, stream, size, share)


async def _each_mode(figures: Figures, stream: Stream, size: int, share: float) -> None:
    modes: tuple[tuple[str, Callable[..., Awaitable[Span]], int, float | None], ...] = (
        ("Conch publish_many", conch_many, 40_000, None),
        (f"Conch publish, {PRODUCERS} producers", conch_producers, 20_000, None),
        ("nats-py publish_async", nats_async, 20_000, 1.8),
        ("nats-py gather(publish)", nats_gather, 10_000, None),
        ("nats-py await publish", nats_await, 2_000, None),
        ("server's limit", limit, 40_000, None),
    )
    for name, publish, usual, goal in modes:
        count = max(512, int(usual * share))
        await stream.empty()
        began, ended = await publish(stream, payload(size), count)
        there = (await stream.bus.state()).messages
        if there != count:
            raise SystemExit(f"{name}: {there} events on the stream, {count} were published")
        figures.add(f"durable publish, {size} B", name, count / (ended - began), goal=goal, ours=publish is conch_many)


def messages(data: bytes, count: int) -> list[OutgoingMessage]:
    """`count` events with ids of their own."""
    return [OutgoingMessage(SUBJECT, data, f"bench-{next(_ids)}") for _ in range(count)]


async def conch_many(stream: Stream, data: bytes, count: int) -> Span:
    """Whole windows."""
    all_of_them = messages(data, count)
    began = time.perf_counter()
    for at in range(0, count, WINDOW):
        await stream.bus.publish_many(all_of_them[at : at + WINDOW])
    return began, time.perf_counter()


async def conch_producers(stream: Stream, data: bytes, count: int) -> Span:
    """Many tasks, each waiting for its own event."""
    waiting = iter(messages(data, count))

    async def produce() -> None:
        for message in waiting:
            await stream.bus.publish(message.subject, message.data, id=message.id)

    began = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))
    return began, time.perf_counter()


async def nats_async(stream: Stream, data: bytes, count: int) -> Span:
    """A future a message, all awaited at the end."""
    publisher = stream.client.jetstream()
    began = time.perf_counter()
    futures = [await publisher.publish_async(SUBJECT, data) for _ in range(count)]
    await publisher.publish_async_completed()
    for future in futures:
        future.result()
    return began, time.perf_counter()


async def nats_gather(stream: Stream, data: bytes, count: int) -> Span:
    """Requests side by side."""
    publisher = stream.client.jetstream()
    began = time.perf_counter()
    for at in range(0, count, PRODUCERS):
        await asyncio.gather(*(publisher.publish(SUBJECT, data) for _ in range(min(PRODUCERS, count - at))))
    return began, time.perf_counter()


async def nats_await(stream: Stream, data: bytes, count: int) -> Span:
    """One after the other."""
    publisher = stream.client.jetstream()
    began = time.perf_counter()
    for _ in range(count):
        await publisher.publish(SUBJECT, data)
    return began, time.perf_counter()


async def limit(stream: Stream, data: bytes, count: int) -> Span:
    """A bare socket."""
    return await asyncio.to_thread(raw.publish, stream.server.port, [(SUBJECT, data)] * count)

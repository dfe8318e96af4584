"""Publish and consume at once, by one client: until it has taken every event that it published; peers acknowledge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from bus import consume, publish, raw
from bus.events import payload
from bus.figures import Figures
from bus.publish import SUBJECT
from bus.raw import Span
from bus.server import Server
from bus.stream import Stream, opened
from conch.bus import shared_subscription
from conch.bus.jetstream.names import STREAM

DURABLE = consume.DURABLE


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Both sizes, each mode in turn, `times` times over. `share` of the usual number of events."""
    with Server() as server:
        async with opened(server) as stream:
            for _ in range(times):
                for size in (512, 2048):
                    await _each_mode(figures, stream, size, share)


async def _each_mode(figures: Figures, stream: Stream, size: int, share: float) -> None:
    modes: tuple[tuple[str, Callable[..., Awaitable[Span]], int, float | None], ...] = (
        ("Conch publish_many and a shared subscription", conch_shared, 20_000, None),
        ("nats-py gather and fetch(500)", nats_gather, 10_000, 3.0),
        ("nats-py await publish and fetch(500)", nats_await, 2_000, None),
        ("server's limit", limit, 20_000, 0.35),
    )
    for name, mode, usual, goal in modes:
        count = max(512, int(usual * share))
        await stream.empty()
        began, ended = await mode(stream, payload(size), count)
        figures.add(f"both at once, {size} B", name, count / (ended - began), goal=goal, ours=mode is conch_shared)


async def conch_shared(stream: Stream, data: bytes, count: int) -> Span:
    """As the consumers of a run read: live, from their process's feed."""
    seen: list[int] = []
    async with shared_subscription(stream.bus) as shared_events:
        first = shared_events.seq + 1
        async with shared_events.subscribe(None, after=shared_events.seq) as subscription:
            publishing = asyncio.create_task(publish.conch_many(stream, data, count))
            while len(seen) < count:
                seen += [arrived.seq for arrived in await subscription.get(consume.BATCH)]
            ended = time.perf_counter()
            began, _ = await publishing
    consume.in_order(seen, first, count)
    return began, ended


async def nats_gather(stream: Stream, data: bytes, count: int) -> Span:
    """Requests side by side, and a pull subscription."""
    return await _beside(publish.nats_gather(stream, data, count), consume.nats_fetch, stream, count)


async def nats_await(stream: Stream, data: bytes, count: int) -> Span:
    """One after the other, and a pull subscription."""
    return await _beside(publish.nats_await(stream, data, count), consume.nats_fetch, stream, count)


async def _beside(
    publishing: Awaitable[Span], consuming: Callable[..., Awaitable[Span]], stream: Stream, count: int
) -> Span:
    first = (await stream.bus.state()).last + 1
    return _whole(*await asyncio.gather(publishing, consuming(stream, first, count)))


def _whole(publishing: Span, consuming: Span) -> Span:
    return publishing[0], max(publishing[1], consuming[1])


async def limit(stream: Stream, data: bytes, count: int) -> Span:
    """Two bare sockets."""
    await stream.durable(DURABLE, "all")
    port = stream.server.port
    publishing = asyncio.to_thread(raw.publish, port, [(SUBJECT, data)] * count)
    return _whole(*await asyncio.gather(publishing, asyncio.to_thread(raw.consume, port, STREAM, DURABLE, count)))

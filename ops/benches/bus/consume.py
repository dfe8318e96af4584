"""Durable consume: until every event is taken, in order; peers acknowledge each one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from bus import raw
from bus.events import payload
from bus.figures import Figures
from bus.publish import SUBJECT
from bus.raw import Span
from bus.server import Server
from bus.stream import Stream, opened
from conch.bus import shared_subscription
from conch.bus.jetstream.names import STREAM

DURABLE = "bench"
BATCH = 500


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Both sizes, each mode in turn, `times` times over. `share` of the usual number of events."""
    with Server() as server:
        async with opened(server) as stream:
            for _ in range(times):
                for size in (512, 2048):
                    await _each_mode(figures, stream, size, max(1024, int(40_000 * share)))


async def _each_mode(figures: Figures, stream: Stream, size: int, count: int) -> None:
    modes: tuple[tuple[str, Callable[..., Awaitable[Span]], int, float | None], ...] = (
        ("Conch, a subscription that begins in the past", conch_shared, count, None),
        ("nats-py fetch(500) and ack", nats_fetch, count // 4, 3.0),
        ("nats-py push callback and ack", nats_push, count, None),
        ("server's limit", limit, count, None),
    )
    await stream.empty()
    await asyncio.to_thread(raw.publish, stream.server.port, [(SUBJECT, payload(size))] * count)
    first = (await stream.bus.state()).first
    for name, consume, take, goal in modes:
        began, ended = await consume(stream, first, take)
        figures.add(f"durable consume, {size} B", name, take / (ended - began), goal=goal, ours=consume is conch_shared)
        await stream.bus.forget(DURABLE)  # the peers' durable reader


async def conch_shared(stream: Stream, first: int, count: int) -> Span:
    """The path of every consumer of Conch that has been away: its position is its own, nothing is acknowledged."""
    seen: list[int] = []
    async with shared_subscription(stream.bus) as shared_events:
        began = time.perf_counter()
        async with shared_events.subscribe(None, after=first - 1) as subscription:
            while len(seen) < count:
                seen += [arrived.seq for arrived in await subscription.get(BATCH)]
        ended = time.perf_counter()
    in_order(seen, first, count)
    return began, ended


async def nats_fetch(stream: Stream, first: int, count: int) -> Span:
    """A pull subscription."""
    await stream.durable(DURABLE, "explicit")
    reader = await stream.client.jetstream().pull_subscribe_bind(DURABLE, STREAM)
    seen: list[Msg] = []
    began = time.perf_counter()
    while len(seen) < count:
        messages = await reader.fetch(min(BATCH, count - len(seen)), timeout=5)
        for message in messages:
            await message.ack()
        seen += messages
    await stream.client.flush()
    ended = time.perf_counter()
    await reader.unsubscribe()
    in_order([message.metadata.sequence.stream for message in seen], first, count)
    return began, ended


async def nats_push(stream: Stream, first: int, count: int) -> Span:
    """A push subscription."""
    seen: list[Msg] = []
    done = asyncio.Event()

    async def take(message: Msg) -> None:
        await message.ack()
        seen.append(message)
        if len(seen) == count:
            done.set()

    began = time.perf_counter()
    subscription = await stream.client.jetstream().subscribe(
        SUBJECT,
        durable=DURABLE,
        stream=STREAM,
        cb=take,
        manual_ack=True,
        config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=20_000),
    )
    await done.wait()
    await stream.client.flush()
    ended = time.perf_counter()
    in_order([message.metadata.sequence.stream for message in seen], first, count)
    await stream.until_acknowledged(DURABLE)
    await subscription.unsubscribe()
    return began, ended


async def limit(stream: Stream, first: int, count: int) -> Span:
    """A bare socket."""
    await stream.durable(DURABLE, "all")
    return await asyncio.to_thread(raw.consume, stream.server.port, STREAM, DURABLE, count)


def in_order(seen: list[int], first: int, count: int) -> None:
    """End the bench unless these are `count` places from `first` on, each once."""
    if seen != list(range(first, first + count)):
        raise SystemExit(f"{len(seen)} events were taken, {len(set(seen))} of them once; {count} were to come in order")

"""The wall clock jumps by an hour, to and fro, at the acts' producer and at the store."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runs import fresh_home

import conch_services.store.consumer as store_module
from conch.bus import shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch_schemas import ExperienceRecorded
from faults.row import TOKEN, Row
from tests.faults.acts import PARTS, SCORERS, act, consuming, context, ready, stored, streamed, weights

HOUR = timedelta(hours=1)


class _Clock(datetime):
    off = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + cls.off


async def clock_jumps(times: int) -> Row:
    """Lost: a score that is not stored, or an act that is not complete. Doubled: what is stored or said twice."""
    row, draw = Row("clock jumps by an hour"), random.Random(5)
    store_module.datetime = _Clock  # type: ignore[attr-defined]
    try:
        with fresh_home() as place:
            home, own = Path(place), context(Path(place))
            server = EmbeddedServer(home / "nats", token=TOKEN, strict=True, max_bytes=2**30)
            await server.start()
            async with (
                JetStreamBus(Access(server.url, token=TOKEN), strict=True) as bus,
                shared_subscription(bus) as shared_events,
                consuming(shared_events, own, [*SCORERS, "store"]),
            ):
                await bus.publish(*ready(weights(own))[:2], id="weights")
                for cycle in range(times):
                    began = time.perf_counter()
                    _Clock.off = draw.choice((-HOUR, HOUR)) if cycle % 2 else timedelta()
                    one = act(cycle, datetime.now(UTC) + draw.choice((-HOUR, 0 * HOUR, HOUR)))
                    await bus.publish(*ready(one)[:2], id=one.id)
                    async with asyncio.timeout(60):
                        while len(stored(home).complete) <= cycle:
                            await asyncio.sleep(0.002)
                    row.seconds.append(time.perf_counter() - began)
                    row.injected += 1
                found, stream = stored(home), await streamed(bus)
            await server.stop()
    finally:
        store_module.datetime = datetime  # type: ignore[attr-defined]
    row.lost = PARTS * times - len(found.scores) + times - len(found.complete)
    said = stream.times(ExperienceRecorded)
    row.doubled = found.rows - len(found.scores) + sum(count - 1 for count in said.values())
    return row


FAULTS = [(1.0, clock_jumps)]

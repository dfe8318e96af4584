"""The stage as Conch runs it: a feed, a runtime, a declared consumer."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from bus.joy import joy
from bus.lifetime import until_told
from conch.bus import Access, shared_subscription
from conch.bus.jetstream import JetStreamBus
from conch.consumer.runtime.loop import ConsumerRuntime
from conch.consumer.spec import ConsumerSpec
from conch.processes.child import run_loop
from conch_schemas import ActionTaken, RewardAssigned

EACH = ConsumerSpec("joy", "1", (ActionTaken,), joy, emits=(RewardAssigned,))
BATCH = replace(EACH, handle=lambda actions: [joy(action) for action in actions], batch=256)


async def main(mode: str, url: str) -> None:
    """Until the input ends; then what is in hand is finished."""
    stop = asyncio.Event()
    async with JetStreamBus(Access(url), name="stage") as bus, shared_subscription(bus, EACH.kinds) as shared_events:
        running = asyncio.create_task(ConsumerRuntime(shared_events, BATCH if mode == "batch" else EACH).run(stop))
        await until_told()
        stop.set()
        await running


run_loop(main(*sys.argv[1:]))

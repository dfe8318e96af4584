"""The agents' side of the latency measurement, a process of its own: acts at a steady rate, their rewards read back."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence

from bus.events import acts, rendered
from bus.pipeline import AGENTS
from conch.bus import Access, OutgoingMessage
from conch.bus.jetstream import JetStreamBus
from conch.bus.protocol import Reader
from conch.processes.child import run_loop

WARM = 64
PATIENCE = 30.0
"""Seconds that the last rewards may take."""


async def main(url: str) -> None:
    """For each line `RATE ACTS` print the delays in milliseconds; fail where a reward does not come."""
    life = acts(AGENTS, 1 << 30)
    arrived: dict[str, int] = {}
    async with (
        JetStreamBus(Access(url), name="pace", strict=True) as bus,
        bus.follow(["conch.v1.*.reward.assigned"], after=0) as reader,
    ):
        reading = asyncio.create_task(read(reader, arrived))
        await delays(bus, arrived, [OutgoingMessage(*each) for each in rendered(itertools.islice(life, WARM))], 1000)
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            offered, count = map(int, line.split())
            messages = [OutgoingMessage(*each) for each in rendered(itertools.islice(life, count))]
            print(json.dumps(await delays(bus, arrived, messages, offered)), flush=True)
        reading.cancel()


async def read(reader: Reader, arrived: dict[str, int]) -> None:
    """Note when the reward of each act came, for ever."""
    while True:
        batch = await reader.get()
        now = time.monotonic_ns()
        for delivery in batch:
            arrived.setdefault(json.loads(delivery.data)["causationid"], now)


async def delays(
    bus: JetStreamBus, arrived: dict[str, int], messages: Sequence[OutgoingMessage], offered: int
) -> list[float]:
    """Milliseconds from just before each is published until its reward came."""
    before = len(arrived)
    sent = await pace(bus, messages, offered)
    async with asyncio.timeout(PATIENCE):
        while len(arrived) < before + len(messages):
            await asyncio.sleep(0.05)
    return [round((arrived[id] - at) / 1e6, 4) for id, at in sent.items()]


async def pace(bus: JetStreamBus, messages: Sequence[OutgoingMessage], offered: int) -> dict[str, int]:
    """Publish `offered` a second, whatever comes back; when each was published, by its id."""
    sent: dict[str, int] = {}
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as publishing:
        for number, message in enumerate(messages):
            if (ahead := began + number / offered - loop.time()) > 0:
                await asyncio.sleep(ahead)
            sent[message.id] = time.monotonic_ns()
            publishing.create_task(bus.publish(message.subject, message.data, id=message.id))
    return sent


if __name__ == "__main__":
    run_loop(main(sys.argv[1]))

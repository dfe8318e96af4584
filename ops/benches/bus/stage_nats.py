"""The stage written by hand on nats-py, as its documentation shows: a push callback, or fetch and gather."""

from __future__ import annotations

import asyncio
import sys

import nats
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from bus.joy import joy
from bus.lifetime import until_told
from conch.bus.jetstream.names import STREAM
from conch.processes.child import run_loop
from conch_schemas import ActionTaken, decode, encode, subject_filter, subject_of

CONFIG = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=10_000)


async def main(mode: str, url: str) -> None:
    """Until the input ends."""
    client = await nats.connect(url, pending_size=64 << 20)
    stream = client.jetstream()

    async def handle(message: Msg) -> None:
        reward = joy(decode(message.data))
        await stream.publish(subject_of(reward), encode(reward))
        await message.ack()

    async def fetching() -> None:
        while True:
            try:
                messages = await reader.fetch(256, timeout=1)
            except TimeoutError:
                continue
            await asyncio.gather(*map(handle, messages))

    subject = subject_filter(ActionTaken)
    if mode == "push":
        await stream.subscribe(subject, durable="stage", stream=STREAM, cb=handle, manual_ack=True, config=CONFIG)
        await until_told()
    else:
        reader = await stream.pull_subscribe(subject, durable="stage", stream=STREAM, config=CONFIG)
        task = asyncio.create_task(fetching())
        await until_told()
        task.cancel()
    await client.close()


run_loop(main(*sys.argv[1:]))

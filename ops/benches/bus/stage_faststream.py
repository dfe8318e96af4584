"""The stage as FastStream's documentation shows it: a typed handler, its result published by the decorator."""

from __future__ import annotations

import asyncio
import logging
import sys

from faststream.nats import JStream, NatsBroker
from nats.js.api import AckPolicy, ConsumerConfig

from bus.faststream_modes import MODES, keep_batches_alive
from bus.joy import joy
from bus.lifetime import until_told
from conch.bus.jetstream.names import STREAM
from conch.processes.child import run_loop
from conch_schemas import ActionTaken, RewardAssigned, subject_filter

OUT = "conch.v1.joy.reward.assigned"


async def main(mode: str, url: str) -> None:
    """Until the input ends."""
    broker = NatsBroker(url, logger=None)
    subscriber = broker.subscriber(
        subject_filter(ActionTaken),
        stream=JStream(STREAM, declare=False),
        durable="stage",
        config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=10_000),
        pending_msgs_limit=1 << 20,
        **MODES[mode],
    )
    if mode == "batch":

        @subscriber
        async def handle_all(actions: list[ActionTaken]) -> None:
            await asyncio.gather(*(broker.publish(joy(action), OUT, stream=STREAM) for action in actions))

    else:

        @subscriber
        @broker.publisher(OUT, stream=STREAM)
        async def handle(action: ActionTaken) -> RewardAssigned:
            return joy(action)

    await broker.start()
    await until_told()
    await broker.stop()


logging.disable(logging.CRITICAL)
keep_batches_alive()
run_loop(main(*sys.argv[1:]))

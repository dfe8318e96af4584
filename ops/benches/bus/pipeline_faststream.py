"""The five consumers of a run as FastStream subscribers, with the same pure functions, models and store.

Its states are in memory only: FastStream keeps none.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faststream.nats import JStream, NatsBroker, NatsMessage
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from bus.faststream_modes import MODES, keep_batches_alive
from bus.lifetime import until_told
from conch.bus.jetstream.names import STREAM
from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.experience import FACTS, SqliteStore
from conch.processes.child import run_loop
from conch_schemas import Event, decode, encode, subject_filter, subject_of
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer
from conch_services.witness.consumer import witness as witness_consumer

MAKE = {
    "reward": reward_consumer,
    "needs": needs_consumer,
    "curiosity": curiosity_consumer,
    "witness": witness_consumer,
}

Handle = Callable[[Sequence[tuple[int, Event]]], Awaitable[Sequence[Event]]]
"""(place, fact) each -> the facts that follow."""


def scoring(name: str, home: str) -> tuple[tuple[type[Event], ...], Handle]:
    """A consumer of Conch's, without its runtime: its kinds, and its function over a state kept here."""
    spec = bind(MAKE[name], ServiceContext(Settings(), Path(home)))
    states: dict[str, Any] = {}

    def one(event: Event) -> Event | None:
        if spec.state is None:
            return spec.handle(event)
        states[event.agent], follows = spec.handle(states.get(event.agent) or spec.initial(), event)
        return follows

    async def handle(facts: Sequence[tuple[int, Event]]) -> Sequence[Event]:
        return [follows for _, event in facts if (follows := one(event)) is not None]

    return spec.kinds, handle


def storing(home: str, *, thread: bool) -> tuple[tuple[type[Event], ...], Handle]:
    """The store; a batch in a thread, so that it holds up nobody."""
    store = SqliteStore(f"{home}/store.db")

    async def handle(facts: Sequence[tuple[int, Event]]) -> Sequence[Event]:
        arguments = {"upto": max(seq for seq, _ in facts), "now": datetime.now(UTC)}
        if thread:
            return await asyncio.to_thread(store.apply, facts, **arguments)
        return store.apply(facts, **arguments)

    return FACTS, handle


def subscribe(broker: NatsBroker, name: str, mode: str, kinds: Sequence[type[Event]], handle: Handle) -> None:
    """One subscriber that publishes what follows and is acknowledged then."""
    subscriber = broker.subscriber(
        stream=JStream(STREAM, declare=False),
        durable=name,
        config=ConsumerConfig(
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=10_000,
            filter_subjects=[subject_filter(kind) for kind in kinds],
        ),
        pending_msgs_limit=1 << 20,
        decoder=_decoded_all if mode == "batch" else _decoded,
        **MODES[mode],
    )

    @subscriber
    async def take(facts):  # type: ignore[no-untyped-def]
        follow = await handle(facts)
        if len(follow) == 1:
            await broker.publish(encode(follow[0]), subject_of(follow[0]), stream=STREAM)
        elif follow:
            await asyncio.gather(*(broker.publish(encode(each), subject_of(each), stream=STREAM) for each in follow))


async def _decoded(message: NatsMessage) -> list[tuple[int, Event]]:
    return [_fact(message.raw_message)]


async def _decoded_all(message: NatsMessage) -> list[tuple[int, Event]]:
    return [_fact(each) for each in message.raw_message]


def _fact(message: Msg) -> tuple[int, Event]:
    return message.metadata.sequence.stream, decode(message.data)


async def main(mode: str, url: str, home: str, *names: str) -> None:
    """Until the input ends."""
    broker = NatsBroker(url, logger=None, apply_types=False)
    for name in names:
        kinds, handle = storing(home, thread=mode == "batch") if name == "store" else scoring(name, home)
        subscribe(broker, name, mode, kinds, handle)
    await broker.start()
    await until_told()
    await broker.stop()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    keep_batches_alive()
    run_loop(main(*sys.argv[1:]))

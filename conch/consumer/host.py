"""Runs several consumers in one process: each is restarted when it fails, and none stops another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from conch.bus import SharedSubscription
from conch.consumer.plugins.rule_process import RuleWorker
from conch.consumer.services import Service
from conch.errors import ConchError, ConfigError, ContractError, FencedError
from conch.log import get_logger
from conch.processes import ConsumerBroke, ConsumerDown, ConsumerReport
from conch.retry import CONSUMER, MOST_RESTARTS, Restarts
from conch.tasks import innermost, ungrouped

log = get_logger(__name__)


@dataclass
class HostedConsumer:
    """One consumer of this process, and whether it is running."""

    name: str
    make: Callable[[], Service]
    now: Service | None = None
    up: bool = False
    """Whether it runs: not while it is down, or waits to be started again."""
    down: str = ""
    """Why it was left down."""
    worker: RuleWorker | None = None
    """For a rule: the process that it scores in."""


Beside = Callable[[asyncio.TaskGroup], Coroutine[Any, Any, None]]
"""A coroutine that runs beside the consumers, in their task group."""


async def host(
    shared_events: SharedSubscription,
    running: Sequence[HostedConsumer],
    stop: asyncio.Event,
    report: Callable[[ConsumerReport], None],
    beside: Beside | None = None,
) -> None:
    """Run consumers side by side until `stop`. One that breaks is started again with back-off and harms no other.

    One that breaks five times in a minute, is fenced, has an unreadable state, or cannot be made from its settings, is
    left down and reported. A ConchError of another kind (the store's file is damaged) is fatal: raised.
    """
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            if beside is not None:
                group.create_task(beside(group), name="conch.beside")
            for one in running:
                group.create_task(keep(shared_events, one, stop, report), name=f"conch.{one.name}")


async def keep(
    shared_events: SharedSubscription,
    one: HostedConsumer,
    stop: asyncio.Event,
    report: Callable[[ConsumerReport], None],
) -> None:
    """Run one consumer until `stop`, started again whenever it breaks; see `host`."""
    restarts = Restarts(CONSUMER)
    one.down = ""
    while not stop.is_set():
        try:
            one.now = one.make()
            one.up = True
            try:
                await one.now.run(shared_events, stop)
            finally:
                one.up = False
            return
        except Exception as error:
            broke = innermost(error)  # two events that fail at once come in a group
            if isinstance(broke, FencedError | ContractError | ConfigError):
                one.down = str(broke)
                break
            if isinstance(broke, ConchError):
                raise broke from None
            log.exception("consumer.broke", consumer=one.name)
            report(ConsumerBroke(consumer=one.name, why=f"{type(broke).__name__}: {broke}"))
            if not restarts.died():
                one.down = f"it broke {MOST_RESTARTS} times in a minute, last of {type(broke).__name__}: {broke}"
                break
            await asyncio.sleep(restarts.wait())
    if one.down:
        log.error("consumer.down", consumer=one.name, why=one.down)
        report(ConsumerDown(consumer=one.name, why=one.down))

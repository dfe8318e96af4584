"""`python -m tests.faults.workers URL TOKEN HOME FOLD NAME`: a worker of a fold that others share, to be stopped.

It is taken for dead after a tenth of the usual time. SIGTERM ends it in order.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

import structlog

from conch.bus import shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.consumer.group import membership
from conch.consumer.group.membership import joined
from conch.consumer.group.shared import SharedConsumer
from conch.consumer.runtime import ownership
from tests.faults.overtaken import folds

BEAT_SECONDS, LEASE_SECONDS = 0.1, 0.5


async def _live(url: str, token: str, home: Path, fold: str, name: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        JetStreamBus(Access(url, token=token)) as bus,
        shared_subscription(bus) as shared_events,
        joined(bus, [fold], name) as others,
    ):
        await SharedConsumer(folds(home)[fold], others).run(shared_events, stop)


def main() -> None:
    """Entry point of the process."""
    membership.BEAT_SECONDS, membership.LEASE_SECONDS = BEAT_SECONDS, LEASE_SECONDS
    ownership.SURE_SECONDS = LEASE_SECONDS
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    url, token, home, fold, name = sys.argv[1:]
    asyncio.run(_live(url, token, Path(home), fold, name))


if __name__ == "__main__":
    main()

"""`python -m tests.faults.consumers URL TOKEN HOME NAME… [forgetful]`: consumers in a process, to be killed.

Says `ready` on stdout once each has handled something. `forgetful`: the server knows none of the ids that they publish,
as after its dedupe window. SIGTERM ends it in order; a copy that was fenced ends with exit status 9.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import structlog

from conch.bus import OutgoingMessage, Stored, shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.errors import FencedError
from conch.tasks import ungrouped
from tests.faults.acts import consuming, context

FENCED = 9


class ForgottenBus(JetStreamBus):
    """Publishes every event as if its id had never been seen."""

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        return await super().publish(subject, data, id=str(uuid.uuid4()))

    async def publish_many(self, messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
        return await super().publish_many([message._replace(id=str(uuid.uuid4())) for message in messages])


async def _live(url: str, token: str, home: Path, names: Sequence[str], *, forgetful: bool) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    kind = ForgottenBus if forgetful else JetStreamBus
    async with (
        kind(Access(url, token=token)) as bus,
        shared_subscription(bus) as shared_events,
        consuming(shared_events, context(home), names) as running,
    ):
        while not all(one.handled for one in running):
            await asyncio.sleep(0.002)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Entry point of the process."""
    levels = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr), wrapper_class=levels)
    url, token, home, *names = sys.argv[1:]
    forgetful = "forgetful" in names
    names = [name for name in names if name != "forgetful"]

    async def live() -> None:
        with ungrouped():
            await _live(url, token, Path(home), names, forgetful=forgetful)

    try:
        asyncio.run(live())
    except FencedError:
        sys.exit(FENCED)


if __name__ == "__main__":
    main()

"""`python -m tests.faults.publisher URL TOKEN FIRST LAST`: publishes messages FIRST to LAST, and is there to be killed.

Each is said on stdout once it is acknowledged, as `number place`. Odd ones go singly, 20 on their way at once, even
ones in batches of 20.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import structlog

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from tests.faults.load import message

AT_ONCE = 20


async def _publish(url: str, token: str, first: int, last: int) -> None:
    async with JetStreamBus(Access(url, token=token)) as bus:
        for start in range(first, last + 1, 2 * AT_ONCE):
            numbers = range(start, min(start + 2 * AT_ONCE, last + 1))
            odd, even = [n for n in numbers if n % 2], [n for n in numbers if not n % 2]
            batch, *singly = await asyncio.gather(
                bus.publish_many([message("echo", number) for number in even]),
                *(bus.publish_many([message("echo", number)]) for number in odd),
            )
            places = zip([*even, *odd], [*batch, *(one for (one,) in singly)], strict=True)
            sys.stdout.write("".join(f"{number} {where.seq}\n" for number, where in places))
            sys.stdout.flush()


if __name__ == "__main__":
    levels = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr), wrapper_class=levels)
    asyncio.run(_publish(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

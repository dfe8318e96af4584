"""Waiting for a store's server that went away in mid-run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from conch.errors import StoreAwayError
from conch.log import get_logger
from conch.retry import STORE_SERVER

log = get_logger(__name__)


async def through_outages(
    serve: Callable[[], Awaitable[None]], stop: asyncio.Event, tell: Callable[[str], None]
) -> None:
    """Call `serve` until it returns, again whenever the store's server went away; it opens the store anew.

    What the server did not commit stands on the stream, and is read again. `tell` is given a sentence at the first
    failure. Raises what `serve` raises, StoreAwayError
    only once `stop` is set.
    """
    failures = 0
    while True:
        try:
            return await serve()
        except StoreAwayError as error:
            if stop.is_set():
                raise
            failures += 1
            if failures == 1:
                tell(f"{error} Cycles are recorded once it answers.")
            log.warning("store.away", error=str(error), failures=failures)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), STORE_SERVER.after(failures))

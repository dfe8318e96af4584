"""Waiting for what the agent cannot go on without: a mind that speaks, a person's leave, tokens to spend."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import structlog

from conch.cycle.control import Control, StoppedError
from conch.cycle.memory import HOUR, Memory
from conch.errors import ModelError

T = TypeVar("T")

log = structlog.get_logger(__name__)

MOST_BACKOFF = 60.0
"""Longest wait, in seconds, for a mind that failed, unless it asked for longer."""
GIVE_UP_SECONDS = 30.0
"""How long a run of a set number of cycles waits for a mind that never spoke."""
_DOUBLINGS = 6


class Patience:
    """One agent's waiting. `limit`: tokens that it may use in an hour; None: any number."""

    def __init__(self, control: Control, limit: int | None) -> None:
        self._control, self._limit = control, limit
        self._mind_spoke = False

    async def answer(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The mind's answer, asked for again with back-off while it fails: a failure is no reply, and costs no cycle.

        Raises StoppedError when told to stop meanwhile; ModelError when the mind never spoke before and it is fatal,
        or the run has a set number of cycles and nobody is at the endpoint, or nothing whole came for GIVE_UP_SECONDS:
        then somebody is there to mend it.
        """
        failures, began = 0, time.monotonic()
        while True:
            try:
                answer = await self._control.unless_stopped(ask())
            except ModelError as error:
                failures += 1
                hopeless = error.unreachable or time.monotonic() - began > GIVE_UP_SECONDS
                if not self._mind_spoke and (error.fatal or (self._control.batch and hopeless)):
                    raise
                await self._wait(error, failures)
            else:
                self._mind_spoke = True
                self._control.over("mind")
                return answer

    async def _wait(self, error: ModelError, failures: int) -> None:
        backoff = min(2.0 ** min(failures, _DOUBLINGS), MOST_BACKOFF)
        wait = min(error.retry_after or backoff * random.uniform(0.75, 1.0), HOUR)  # noqa: S311 - no secret
        log.warning("mind.failed", error=str(error), wait=wait, failures=failures)
        self._control.trouble("mind", f"{error}; trying again in {wait:.0f} s")
        await self._control.sleep(wait)
        if self._control.stopping:
            raise StoppedError

    async def leave(self, memory: Callable[[], Memory]) -> None:
        """Wait while a person has paused the agent, or the hour's tokens are used up. Returns when told to stop."""
        while not self._control.stopping:
            now = time.time()  # the hour is one of people's: it goes on while the agent is down
            until = memory().until_below(self._limit, now) if self._limit is not None else now
            if until > now:
                at = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%S UTC")
                why = f"{self._limit} tokens in the last hour (mind.max_tokens_per_hour): paused until {at}"
                self._control.trouble("budget", why)
                await self._control.change(until - now)
                continue
            self._control.over("budget")
            if not self._control.paused:
                return
            await self._control.change()

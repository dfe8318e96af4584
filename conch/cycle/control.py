"""What people can do with a running agent: pause, resume, stop; and what it says of its own state meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")


class Control:
    """The agent's switches. `report` is told every change of state, as (state, sentence)."""

    def __init__(self, report: Callable[[str, str], None], *, batch: bool = False) -> None:
        self._report = report
        self.batch = batch
        """Whether the run has a set number of cycles: then nobody waits for a mind that never spoke."""
        self.stopping = False
        self.paused = False
        self.state, self.why = "starting", ""
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()

    def say(self, state: str, why: str) -> None:
        """Take up a state and report it, once."""
        if (state, why) != (self.state, self.why):
            self.state, self.why = state, why
            self._report(state, why)

    def running(self) -> None:
        """The normal state."""
        self.say("running", "")

    def pause(self) -> None:
        """Before the next cycle, wait."""
        self.paused = True
        self.say("paused", "by request")

    def resume(self) -> None:
        """Go on. Also after a budget's pause it is checked at once."""
        self.paused = False
        self.running()
        self._changed.set()

    def stop(self) -> None:
        """End after the cycle in hand."""
        self.stopping = True
        self._stopped.set()
        self.say("stopping", "by request")
        self._changed.set()

    def mind_speaks(self) -> None:
        """The mind answered."""
        if self.state == "mind":
            self.running()

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; told to stop meanwhile, it is cancelled and StoppedError raised."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise StoppedError
        finally:
            stopped.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def sleep(self, seconds: float) -> None:
        """Until the next cycle is due, or something changes."""
        if seconds > 0:
            await self._wait(seconds)
        else:
            await asyncio.sleep(0)

    async def wait_for_mind(self, why: str, seconds: float) -> None:
        """The mind failed: wait. Raises StoppedError when told to stop meanwhile: the cycle stays open."""
        self.say("mind", f"{why}; trying again in {seconds:.0f} s")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stopping:
            await self._wait(left)
        if self.stopping:
            raise StoppedError

    async def wait_for_budget(self, limit: int, until: float) -> None:
        """The hour's tokens are used up: wait until enough of them are an hour old."""
        at = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%S UTC")
        self.say("budget", f"{limit} tokens in the last hour (mind.max_tokens_per_hour): paused until {at}")
        await self._wait(max(0.01, until - time.time()))
        if not self.stopping and not self.paused:
            self.running()

    async def wait_for_resume(self) -> None:
        """Paused: wait for a change."""
        await self._wait(None)

    async def _wait(self, seconds: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


class StoppedError(Exception):
    """The agent was told to stop while it waited; the open cycle is finished by the next run."""

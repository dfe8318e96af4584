"""What people can do with a running agent: pause, resume, stop; and what it says of its own state meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from conch.cycle.hosting.interrupt import Interrupt

T = TypeVar("T")


class StoppedError(Exception):
    """The agent was told to stop while it waited; the open cycle is finished by the next run."""


class Control:
    """The agent's switches. `report` is told every change of state, as (state, sentence).

    The state is the first of these that holds: ended; stopping; the latest trouble (bus, mind, budget, failed); paused;
    running.
    """

    def __init__(self, report: Callable[[str, str], None], *, batch: bool = False) -> None:
        self._report = report
        self.batch = batch
        """Whether the run has a set number of cycles: then nobody waits for a mind that never spoke."""
        self.stopping = False
        self.paused = False
        self._ended = False
        self.state, self.why = "starting", ""
        self._troubles: dict[str, str] = {}
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()
        self._end = Interrupt()

    def running(self) -> None:
        """The agent has begun."""
        self._say()

    def ended(self) -> None:
        """It has done all that it was to do, while others go on."""
        self._ended = True
        self._say()

    def trouble(self, state: str, why: str) -> None:
        """Something that the agent waits for, and why; until it is over."""
        self._troubles.pop(state, None)
        self._troubles[state] = why
        self._say()

    def over(self, state: str) -> None:
        """That trouble is over. Twice is once."""
        if self._troubles.pop(state, None) is not None:
            self._say()

    def pause(self) -> None:
        """Before the next cycle, wait."""
        self.paused = True
        self._say()

    def resume(self) -> None:
        """Go on. An agent that waits for its budget looks at it anew."""
        self.paused = False
        self._say()
        self._changed.set()

    def stop(self) -> None:
        """End: after the cycle in hand, or at once where it waits for its mind. Twice is once."""
        self.stopping = True
        self._say()
        self._stopped.set()
        self._changed.set()
        self._end.end(StoppedError)

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; told to stop meanwhile, it is cancelled and StoppedError raised."""
        return await self._end.around(work)

    async def sleep(self, seconds: float) -> None:
        """That long; told to stop, no longer."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    async def change(self, seconds: float | None = None) -> None:
        """Until somebody resumes or stops the agent, at most `seconds`. Returns at once when it was stopped before."""
        self._changed.clear()
        if not self.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    def _say(self) -> None:
        found = self._found()
        if found != (self.state, self.why):
            self.state, self.why = found
            self._report(*found)

    def _found(self) -> tuple[str, str]:
        if self._ended:
            return "ended", ""
        if self.stopping:
            return "stopping", "by request"
        if self._troubles:
            return next(reversed(self._troubles.items()))
        return ("paused", "by request") if self.paused else ("running", "")

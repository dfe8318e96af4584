"""Waiting and retrying: for the mind's answer, while a person has paused the agent, and at a limit of the budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar

from conch.cycle.approvals.answer import waiting_act
from conch.cycle.budget.keeper import BudgetKeeper, CeilingError, words
from conch.cycle.budget.ledger import Ceiling, kept_for_people
from conch.cycle.control import Control, StoppedError
from conch.cycle.state.memory import HOUR, AgentMemory
from conch.errors import ModelError
from conch.log import get_logger
from conch.retry import MODEL

T = TypeVar("T")

log = get_logger(__name__)

GIVE_UP_SECONDS = 30.0
"""Seconds that a run of a set number of cycles waits for a mind that never answered."""
MAX_UNREAD = 5
"""Replies to one question, in a row, that cannot be read: a run of a set number of cycles ends then."""
SILENT_SECONDS = 2.0
"""How long a mind may take, that has not taken half as long before, until it is said that it is waited for."""


class ModelRetry:
    """Retries and waits of one agent."""

    def __init__(
        self,
        control: Control,
        limit: int | None,
        heard: Callable[[], bool] = lambda: False,
        budget: BudgetKeeper | None = None,
    ) -> None:
        """`limit`: tokens of an hour after which no cycle begins; None: any number. `heard`: whether a part of the open
        reply has come: then the mind is not said to be silent. `budget`: whose limits hold; None: no limits."""
        self._control, self._limit, self._budget, self._heard = control, limit, budget, heard
        self.until: float | None = None
        """When the agent goes on that waits at a limit, seconds since the epoch; None: it does not, or for ever."""
        self._spoke = False
        self._slowest = 0.0
        """Seconds of the slowest reply."""
        self._asked: float | None = None
        """When the open question was asked, monotonic seconds."""
        self._silent = False
        """Whether it was reported that the open question is waited for."""

    async def answer(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The mind's answer, retried with back-off while it fails: a failure is no reply, and uses up no cycle.

        Raises StoppedError when told to stop meanwhile; ModelError when the mind never answered before and the error is
        fatal, or the run has a set number of cycles and the endpoint is unreachable, or no complete answer came for
        GIVE_UP_SECONDS: in these cases a person is there to correct it. ModelError also when a run of a set number of
        cycles could not read MAX_UNREAD replies in a row: the next one will be no other.
        """
        failures, unread, began = 0, 0, monotonic()
        while True:
            try:
                return await self.once(ask())
            except CeilingError as error:
                began += await self._wait_for_room(error)
            except ModelError as error:
                failures += 1
                left = GIVE_UP_SECONDS - (monotonic() - began) if self._control.batch and not self._spoke else None
                hopeless = left is not None and (error.unreachable or left <= 0)
                if not self._spoke and (error.fatal or hopeless):
                    raise
                unread = unread + 1 if error.unread and error.status is None else 0
                if self._control.batch and unread >= MAX_UNREAD:
                    raise
                await self._wait(error, failures, left)

    async def once(self, work: Coroutine[Any, Any, T]) -> T:
        """The mind's answer to one question. Waiting is reported after SILENT_SECONDS, or twice as long as the slowest
        reply. Raises ModelError, and StoppedError when told to stop meanwhile."""
        quiet, began = max(SILENT_SECONDS, 2 * self._slowest), monotonic()
        saying = asyncio.get_running_loop().call_later(quiet, self._say_silent, quiet)
        self._asked, self._silent = began, False
        try:
            answer = await self._control.unless_stopped(work)
        finally:
            saying.cancel()
            self._asked = None
        self._spoke, self._slowest = True, max(self._slowest, monotonic() - began)
        self._control.over("mind")
        return answer

    async def permitted(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The mind's answer to one question, asked once the budget has room. Raises as `once` does."""
        while True:
            try:
                return await self.once(ask())
            except CeilingError as error:
                await self._wait_for_room(error)

    @property
    def waits(self) -> str:
        """How long the open question has been waited for, in words; empty where that was not reported yet."""
        return "" if self._asked is None or not self._silent else _no_reply_for(monotonic() - self._asked)

    def _say_silent(self, seconds: float) -> None:
        if self._heard():
            return
        self._silent = True
        self._control.trouble("mind", _no_reply_for(seconds))

    async def _wait(self, error: ModelError, failures: int, left: float | None) -> None:
        """Seconds of back-off, no more than are `left`, or as many as the endpoint asked for."""
        backoff = MODEL.after(failures)
        wait = min(error.retry_after or (backoff if left is None else min(backoff, left)), HOUR)
        log.warning("mind.failed", error=str(error), wait=wait, failures=failures)
        self._control.trouble("mind", f"{error}; trying again in {wait:.0f} s")
        await self._control.sleep(wait)
        if self._control.stopping:
            raise StoppedError

    def tokens_left(self, memory: AgentMemory) -> dict[str, float]:
        """The share of the hour's tokens that is left, 0..1, as `tokens`; empty where there is no limit."""
        if self._limit is None:
            return {}
        return {"tokens": max(0.0, 1 - memory.tokens_in_hour(time.time()) / self._limit)}

    async def leave(self, memory: Callable[[], AgentMemory]) -> None:
        """Wait while a person has paused the agent, or a limit of its budget has no room.

        Returns when told to stop, and where an act waits for a person's approval: that wait uses nothing, and no other
        one may hide it."""
        while not self._control.stopping and waiting_act(memory()) is None:
            now = time.time()  # windows are measured by the wall clock: they go on while the agent is not running
            if (wait := self._hour_is_used(memory(), now)) is not None:
                await self._room(*wait)
                continue
            if self._budget is not None and (reached := self._budget.before_cycle()) is not None:
                await self._at_ceiling(self._budget, reached)
                continue
            self.until = None
            self._control.over("budget")
            if not self._control.paused:
                return
            await self._control.change()

    def _hour_is_used(self, memory: AgentMemory, now: float) -> tuple[str, float] | None:
        """Why no cycle may begin by `mind.max_tokens_per_hour`, and until when; None: one may."""
        if self._limit is None:
            return None
        share = 0.0 if self._budget is None else self._budget.share
        kept = int(kept_for_people("tokens_per_hour", self._limit, share))
        until = memory.until_below(self._limit - kept, now)
        if until <= now:
            return None
        at = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        for_people = f", {kept} kept for people's messages" if kept else ""
        return (
            f"{memory.tokens_in_hour(now)} of {self._limit} tokens in the last hour "
            f"(mind.max_tokens_per_hour){for_people}: paused until {at}",
            until,
        )

    async def _wait_for_room(self, error: CeilingError) -> float:
        """Wait at a limit, in the middle of a cycle; returns the seconds waited. Raises StoppedError."""
        began = monotonic()
        await self._at_ceiling(error.keeper, error.reached)
        if self._control.stopping:
            raise StoppedError
        return monotonic() - began

    async def _at_ceiling(self, budget: BudgetKeeper, reached: Ceiling) -> None:
        await budget.tell(reached)
        await self._room(words(reached), reached.until)

    async def _room(self, why: str, until: float | None) -> None:
        """Report the limit, and wait until it has room, or for a resume or a stop; `until` None: for those alone."""
        self.until = until
        self._control.trouble("budget", why)
        await self._control.change(None if until is None else until - time.time())


def _no_reply_for(seconds: float) -> str:
    return f"no reply for {seconds:.0f} s so far, it is waited for"

"""Memories are written down in turn, one at a time: what a cycle costs does not grow with the agents beside it.

A start reads again what came behind the memory that was written longest ago: at most HEARD facts for each agent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from conch.bus import Bus, StreamSubscription
from conch.cycle.state.recover import RecoveredAgent

HEARD = 70
"""Facts heard, of any agent, from one writing to the next: some 10 cycles."""
SECONDS = 5.0
"""Most time from one writing to the next while anything is heard."""
AT_ONCE = 64
"""Memories written side by side at the end."""


class Checkpointed(Protocol):
    """Somebody with a memory to write down."""

    at: RecoveredAgent | None

    async def save(self, bus: Bus, upto: int) -> None:
        """Write it; everything up to `upto` was brought to it."""
        ...

    def end(self, error: Exception) -> None:
        """It cannot be written for this."""
        ...


class CheckpointSchedule:
    """Writes the memories of a process's agents. `dormant_agents`: of those that do not act, which have seldom news."""

    def __init__(
        self,
        bus: Bus,
        subscription: StreamSubscription,
        agent_runner: Sequence[Checkpointed],
        dormant_agents: Sequence[Checkpointed],
    ) -> None:
        self._bus, self._subscription, self._agent_runners, self._dormant_agents = (
            bus,
            subscription,
            agent_runner,
            dormant_agents,
        )
        self._count = 0
        self._due, self._news = asyncio.Event(), asyncio.Event()

    def heard(self) -> None:
        """A fact was brought to somebody."""
        self._count += 1
        self._news.set()
        if self._count >= HEARD:
            self._due.set()

    async def keep(self) -> None:
        """In turn, for ever: at once what was never written, then one whenever it is due."""
        for one in self._agent_runners:
            if one.at is not None and one.at.revision == 0:
                await self._save(one)
        while True:
            for one in self._agent_runners:
                await self._turn()
                await self._save(one)
            for one in self._dormant_agents:
                await self._save(one)

    async def finish(self) -> None:
        """All of them, at an end in order."""
        everybody = (*self._agent_runners, *self._dormant_agents)
        for start in range(0, len(everybody), AT_ONCE):
            await asyncio.gather(*(self._save(one) for one in everybody[start : start + AT_ONCE]))

    async def _turn(self) -> None:
        await self._news.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await self._due.wait()
        self._count = 0
        self._due.clear()
        self._news.clear()

    async def _save(self, one: Checkpointed) -> None:
        try:
            await one.save(self._bus, self._subscription.seen)
        except Exception as error:  # what one memory fails of is no other's
            one.end(error)

"""Writes the checkpoints of agent memories in turn, so that a cycle's cost does not grow with the number of agents.

A start reads again what came after the oldest checkpoint: at most HEARD events for each agent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from conch.bus import Bus, StreamSubscription
from conch.cycle.state.recover import RecoveredAgent
from conch.tasks import concurrently

HEARD = 70
"""Events received, of any agent, between two checkpoints: some 10 cycles."""
SECONDS = 5.0
"""Most seconds between two checkpoints while events are received."""
IDLE_SECONDS = 300.0
"""Seconds without a received event, after which all memories are written where the stream has grown: agents of other
processes go on, and a position that stays would keep the stream from being trimmed."""


class Checkpointed(Protocol):
    """An owner of a memory that is checkpointed."""

    at: RecoveredAgent | None

    async def save(self, bus: Bus, upto: int) -> None:
        """Write the checkpoint; everything up to `upto` was applied."""
        ...

    def end(self, error: Exception) -> None:
        """End the owner: writing failed with this error."""
        ...


class CheckpointSchedule:
    """Schedules the checkpoints of a process's agents. `dormant_agents` change rarely, and are written only then."""

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
        self._passed = subscription.seen
        """Sequence up to which the memories of an idle process were written."""
        self._due, self._news = asyncio.Event(), asyncio.Event()

    def heard(self) -> None:
        """Count an event that an agent received."""
        self._count += 1
        self._news.set()
        if self._count >= HEARD:
            self._due.set()

    async def keep(self) -> None:
        """Write for ever, in turn: memories that were never written at once, then one whenever it is due."""
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
        """Write all of them."""
        await concurrently(self._save, (*self._agent_runners, *self._dormant_agents))

    async def _turn(self) -> None:
        while not self._news.is_set():
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                await self._pass()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await self._due.wait()
        self._count = 0
        self._due.clear()
        self._news.clear()

    async def _pass(self) -> None:
        """Write all memories where the stream has grown since, by events that concern none of them."""
        if (seen := self._subscription.seen) > self._passed:
            self._passed = seen
            await self.finish()

    async def _save(self, one: Checkpointed) -> None:
        try:
            await one.save(self._bus, self._subscription.seen)
        except Exception as error:  # the failure of one memory is not the others'
            one.end(error)

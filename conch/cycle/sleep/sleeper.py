"""Puts an agent to sleep while there is nothing to do, and wakes it.

Durations are by the event loop's clock, which only goes forward; the wall clock is shown, and read for deadlines alone.
A sleep and a wake are events, each with the number of the sleep in its id: one that is stored when the process dies is
part of the memory that is recovered, so none is published twice.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from conch.config import CycleSettings
from conch.cycle.control import Control
from conch.cycle.publish import AgentPublisher
from conch.cycle.sleep.rules import Wake, changed_files, length, news, reason_to_sleep, sensed, stirs_at_once
from conch.cycle.sleep.watch import WorkspaceWatch
from conch.cycle.state.memory import AgentMemory
from conch.log import get_logger
from conch_schemas import AgentSlept, AgentWoke

log = get_logger(__name__)

WAKERS: Final = "a message, a goal or a changed file wakes it"
"""What a person can do, at the end of the sentence about a sleeping agent."""
LATE_WAKERS: Final = "a message or a goal wakes it, and a changed file at that time"
"""The same, after so many wakes by files that they no longer wake it at once."""
JUMP_SECONDS: Final = 30.0
"""By which the wall clock was set, or the machine stood still: the sleep ends, as its end by the wall is wrong."""
MOST_AT_ONCE: Final = 100
"""Most cycles that are caught up with in one look for material, of a very short interval."""

Bring = Callable[[int], Awaitable[None]]
"""Brings the material that is due before the cycle of this number."""


class CycleBegin(NamedTuple):
    """When a cycle began: what is newer than it, the mind has not seen."""

    time: int
    """Nanoseconds since the epoch, by the system's clock."""
    memory: AgentMemory


class Sleeper:
    """The sleep of one agent. `wake_at_start` and `sleep` are awaited by its run, between two cycles."""

    def __init__(
        self,
        facts: AgentPublisher,
        control: Control,
        settings: CycleSettings,
        workspace: Path,
        memory: Callable[[], AgentMemory],
        roles: int = 1,
    ) -> None:
        """`roles`: of the team that it is, each of which must have had its turn; 1: it is an agent alone."""
        self._facts, self._control, self._settings, self._memory = facts, control, settings, memory
        self._workspace, self._roles = workspace, roles
        self._pace = settings.interval or 1.0
        """Seconds that count as a cycle, for material that comes while the agent sleeps."""

    @property
    def until(self) -> datetime | None:
        """When the present sleep ends, by the wall clock; None: the agent is awake."""
        present = self._memory().sleep.present
        return None if present is None else present.until

    async def wake_at_start(self) -> None:
        """Wake an agent whose process ended while it was asleep."""
        if self._memory().sleep.present is not None:
            await self._wake(Wake("start", "the run was started"), 0.0)

    async def sleep(self, begun: CycleBegin, bring: Bring | None = None) -> None:
        """Sleep where there is nothing to do, until something is. Returns awake; at once where there is something.
        `begun`: the last cycle, from whose begin on files and sensors that change wake the agent.

        Raises BusError as publishing does. Cancelled, it leaves the agent asleep, and the next start wakes it.
        """
        before = self._memory()
        why = reason_to_sleep(before, self._settings.sleep, self._roles)
        if why is None or self._control.stopping or self._control.paused:
            return
        watch = WorkspaceWatch(self._workspace, _clock)
        await watch.begin(begun.time)
        night = _Night(before, begun.memory, watch, _clock())
        while True:
            seconds = length(self._memory().sleep, self._settings.sleep)
            await self._fall_asleep(seconds, why)
            wake = await self._woken(night, seconds, bring)
            if wake is not None:
                break
        await self._wake(wake, _clock() - night.began)

    async def _fall_asleep(self, seconds: float, why: str) -> None:
        number, until = self._memory().sleep.number, datetime.now(UTC) + timedelta(seconds=seconds)
        event = self._facts.outside(AgentSlept, str(number), number=number, seconds=seconds, until=until, why=why)
        await self._facts.publish(event)
        wakers = WAKERS if stirs_at_once(self._memory().sleep, datetime.now(UTC)) else LATE_WAKERS
        self._control.asleep(f"until {until:%Y-%m-%d %H:%M:%S} UTC: {why}; {wakers}")

    async def _wake(self, wake: Wake, seconds: float) -> None:
        present = self._memory().sleep.present
        assert present is not None
        event = self._facts.outside(
            AgentWoke, str(present.number), number=present.number, by=wake.by, seconds=max(0.0, seconds), why=wake.why
        )
        await self._facts.publish(event)
        log.info("agent.awake", by=wake.by, seconds=round(seconds, 1))
        self._control.asleep("")

    async def _woken(self, night: _Night, seconds: float, bring: Bring | None) -> Wake | None:
        """Wait for what wakes the agent. None: the time is over, or the wall clock was set, and nothing has changed."""
        end, wall, began = _clock() + seconds, datetime.now(UTC), _clock()
        while True:
            if bring is not None and not self._control.paused:
                await self._look_for_material(night, bring)
            stirred = changed_files(await night.watch.changed()) or sensed(night.begun, self._memory())
            now, clock = datetime.now(UTC), _clock()
            is_over = clock >= end or abs((now - wall).total_seconds() - (clock - began)) > JUMP_SECONDS
            if self._control.stopping:
                return Wake("stop", "the run is stopped")
            if self._control.paused:
                night.was_paused = True
            elif night.was_paused:
                return Wake("resume", "a person let it go on")
            elif (wake := news(night.before, self._memory(), now)) is not None:
                return wake
            elif stirred is not None and (is_over or stirs_at_once(self._memory().sleep, now)):
                return stirred
            elif is_over:
                return None
            await self._control.change(None if night.was_paused else min(end - clock, night.watch.rest))

    async def _look_for_material(self, night: _Night, bring: Bring) -> None:
        """Let material come as it would before the cycles that the agent slept through."""
        reached = night.first_cycle + math.floor((_clock() - night.began) / self._pace)
        for number in range(max(night.brought + 1, reached - MOST_AT_ONCE), reached + 1):
            night.brought = number
            await bring(number)


class _Night:
    """One time of sleep, from falling asleep to the wake."""

    def __init__(self, before: AgentMemory, begun: AgentMemory, watch: WorkspaceWatch, began: float) -> None:
        """`before`: the memory at the begin; `begun`: at that of the last cycle."""
        self.before, self.begun, self.watch, self.began = before, begun, watch, began
        self.first_cycle = self.brought = before.next_cycle
        """The last cycle that material was brought before; that of `first_cycle` comes when the agent is awake."""
        self.was_paused = False


def _clock() -> float:
    return asyncio.get_running_loop().time()

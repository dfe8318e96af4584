"""Follows experiences and forks those that are worth it. A fork is ended when its agent does anything."""

from __future__ import annotations

import asyncio
import time
from itertools import takewhile
from typing import Any, Final

from conch.bus import Bus, MemoryRecord, SharedSubscription, memory_key
from conch.consumer import ConsumerCounts, ServiceContext
from conch.cycle.budget.ledger import WINDOWS, BudgetLedger, kept_for_people, limits_of, split
from conch.cycle.state.memory import AgentMemory
from conch.errors import ConchError
from conch.experience import store_location
from conch.forks import Fork, ForkRequest, RecordedCycle, fork_minds
from conch.home import Home
from conch.log import get_logger
from conch.tasks import OwnedTasks, cancel_and_wait
from conch.values import in_force
from conch_schemas import (
    ActionTaken,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ForkScored,
    ThoughtFormed,
    encode,
    subject_of,
)
from conch_services.forks.choose import ForkQueue, HourlyRate

log = get_logger(__name__)

ACTIVITY: Final[tuple[type[Event], ...]] = (ThoughtFormed, ActionTaken, CycleReflected)
"""Events of an agent that is not idle."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks for something to fork; half of `forks.idle`, where that is less."""
LEAST_LOOK: Final = 0.05
FIRST_SEED: Final = 1


class ForkService:
    """See `conch.consumer.services.Service`. It keeps no position: what waits when it ends is not forked.
    Its limits count what earlier processes made, as the store has it."""

    name, handled, busy = "forks", None, False

    def __init__(self, context: ServiceContext) -> None:
        self._settings, self._home = context.settings, Home(context.home)
        forks, self._since = context.settings.forks, context.since
        self._queue, self._rate = ForkQueue(forks.advantage), HourlyRate(forks.per_hour or 0)
        self._active: dict[str, float] = {}
        """When an agent did something last, by the monotonic clock."""
        self._used: dict[str, BudgetLedger] = {}
        """What forks used, by agent: it counts with what the agent used itself."""
        self._is_counted = False
        """Whether what was made before the service began is counted."""
        self._forked = ""
        """The agent whose cycle is being forked."""
        self._cycle = 0
        self.tally = ConsumerCounts()

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Fork until `stop`; then the fork in hand is ended."""
        kinds: tuple[type[Event], ...] = (*ACTIVITY, ExperienceRecorded)
        after = shared_events.seq if self._since is None else self._since
        look = min(LOOK_SECONDS, max(LEAST_LOOK, self._settings.forks.idle / 2))
        async with shared_events.subscribe(kinds, after=after) as heard, OwnedTasks() as tasks:
            stopped = tasks.start(stop.wait(), name="conch.forks.stop")
            getting, forking = tasks.start(heard.get(), name="conch.forks.read"), None
            while not stop.is_set():
                waiting: set[asyncio.Future[Any]] = {getting, stopped, *([] if forking is None else [forking])}
                await asyncio.wait(waiting, timeout=look, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    for arrived in getting.result():
                        if arrived.is_event:
                            self._hear(arrived.event)
                    getting = tasks.start(heard.get(), name="conch.forks.read")
                if forking is not None and not forking.done() and not self._is_idle(self._forked):
                    await cancel_and_wait(forking)
                    if forking.cancelled():
                        self._queue.put_back(self._forked, self._cycle)
                if forking is not None and forking.done():
                    self._ended(forking)
                    forking = None
                if forking is None and not stop.is_set() and (found := self._next()) is not None:
                    forking = tasks.start(self._fork(shared_events.bus, *found), name="conch.forks.fork")

    def _hear(self, event: Event) -> None:
        if isinstance(event, ExperienceRecorded):
            self._queue.hear(event)
            self.tally.handled += 1
        else:
            self._active[event.agent] = time.monotonic()

    def _is_idle(self, agent: str) -> bool:
        return time.monotonic() - self._active.get(agent, 0.0) >= self._settings.forks.idle

    def _next(self) -> tuple[str, int] | None:
        return self._queue.take(self._is_idle) if self._rate.left(time.monotonic()) > 0 else None

    def _ended(self, forking: asyncio.Task[None]) -> None:
        if not forking.cancelled() and (error := forking.exception()) is not None:
            self.tally.failures += 1
            log.warning("forks.failed", agent_id=self._forked, error=str(error))
            if not isinstance(error, ConchError):
                raise error

    async def _fork(self, bus: Bus, agent: str, cycle: int) -> None:
        """Fork one cycle, and publish each candidate. Raises ConchError where that cannot be done."""
        self._forked, self._cycle = agent, cycle
        settings = self._settings.model_copy(update={"agent": agent})
        if not self._is_counted:
            self._count_before(await asyncio.to_thread(self._made_before))
        recorded, known = await asyncio.to_thread(self._recorded, agent, cycle)
        async with fork_minds(settings, self._home, agent) as minds:
            seeds = tuple(range(FIRST_SEED, FIRST_SEED + settings.forks.candidates))
            fork = Fork(ForkRequest(recorded, seeds), minds, settings, in_force(settings.values))
            for seed in fork.missing(known):
                if self._rate.left(time.monotonic()) <= 0:
                    self._queue.put_back(agent, cycle)  # what is missing is made when the hour has room again
                    return
                if await self._is_used_up(bus, agent):
                    return
                self._rate.took(time.monotonic())
                async for candidate in fork.candidates([seed]):
                    self._count(candidate)
                    await bus.publish(subject_of(candidate), encode(candidate), id=candidate.id)

    def _recorded(self, agent: str, cycle: int) -> tuple[RecordedCycle, list[ForkScored]]:
        with store_location(self._settings.store.url, self._home.path).reader() as reader:
            return RecordedCycle.find(reader, self._home, agent, cycle), reader.forks.of_cycle(agent, cycle)

    def _made_before(self) -> list[ForkScored]:
        """The candidates in the store of the longest window of a limit, in the order of their time."""
        begin = time.time() - max(WINDOWS.values())
        with store_location(self._settings.store.url, self._home.path).reader() as reader:
            newest = takewhile(lambda one: one.time.timestamp() > begin, reader.forks.newest_first())
            return sorted(newest, key=lambda one: one.time)

    def _count_before(self, made: list[ForkScored]) -> None:
        now, clock = time.time(), time.monotonic()
        for candidate in made:
            self._rate.took(clock - max(0.0, now - candidate.time.timestamp()))
            self._count(candidate)
        self._is_counted = True

    def _count(self, candidate: ForkScored) -> None:
        tokens = candidate.usage.input_tokens + candidate.usage.output_tokens
        money = candidate.cost.amount if candidate.cost is not None else 0.0
        ledger = self._used.get(candidate.agent, BudgetLedger())
        self._used[candidate.agent] = ledger.settled("fork", candidate.time.timestamp(), tokens, money)

    async def _is_used_up(self, bus: Bus, agent: str) -> bool:
        """Whether the agent, as of its last checkpoint, and its forks have used a limit of tokens or money, up to what
        is kept for people."""
        entry = await bus.get(memory_key(agent))
        own = BudgetLedger() if entry is None else MemoryRecord[AgentMemory].decode(entry.value).memory.budget
        limits = limits_of(self._settings.budget)
        if (most := self._settings.mind.max_tokens_per_hour) is not None:
            limits["tokens_per_hour"] = min(most, limits.get("tokens_per_hour", most))
        now, forks = time.time(), self._used.get(agent, BudgetLedger())
        for name, limit in limits.items():
            quantity, window = split(name)
            used = own.used(quantity, WINDOWS[window], now) + forks.used(quantity, WINDOWS[window], now)
            kept = kept_for_people(name, limit, self._settings.budget.for_people)
            if quantity in ("tokens", "money") and used >= limit - kept:
                return True
        return False

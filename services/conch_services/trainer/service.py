"""Follows experiences and events of training, decides when a round begins, and carries each lineage's round on.

One round is worked on at a time, in a task that is cancelled when the service ends: the events say where it goes on.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from conch.bus import Bus, MemoryRecord, SharedSubscription, memory_key
from conch.consumer import ConsumerCounts, ServiceContext
from conch.cycle.state.memory import AgentMemory
from conch.errors import BusError, ConchError, NoStoreError, TrainerBusyError, TrainingError, UsageError
from conch.experience import store_location
from conch.home import Home
from conch.log import get_logger
from conch.processes import ConsumerNote
from conch.rounds import (
    Engine,
    LineageLog,
    LineageTrainer,
    RoundPlan,
    TrainerMoment,
    acting_engine,
    is_look,
    prepare_round,
    promote,
    read_lineage,
    retained,
    roll_back,
    stop_round,
    tidy_rounds,
    under_lease,
    why_busy,
    why_not_yet,
)
from conch.tasks import OwnedTasks, cancel_and_wait
from conch.training import LineageState, drop_adapters
from conch_schemas import OF_TRAINING, AdapterPromoted, AdapterRolledBack, Event, ExperienceRecorded, TrainingReason
from conch_services.trainer.lineages import FollowedLineage
from conch_services.trainer.requests import REQUESTS, TrainerRequest, answer

log = get_logger(__name__)

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks for something to do."""
PREPARE_SECONDS: Final = 8.0
"""Seconds after which a person who asked for a round is told that its data are being read."""
BY_PERSON: Final = "A person asked for it."
RETRY_SECONDS: Final = 60.0
"""Seconds before a step is tried again that failed, or that waits for an engine or a judge."""


class TrainerService:
    """See `conch.consumer.services.Service`. It keeps no position: the store and the stream say where each lineage
    stands."""

    name, handled, busy = "trainer", None, False

    def __init__(
        self,
        context: ServiceContext,
        engine: Engine = acting_engine,
        command: Sequence[str] | None = None,
        look: float = LOOK_SECONDS,
    ) -> None:
        """`engine`: by which agents act; `command`: of the training child; `look`: seconds between two looks."""
        self._settings, self._home, self._report = context.settings, Home(context.home), context.report
        self._engine, self._command, self._look = engine, command, look
        self._lineages: dict[str, FollowedLineage] = {}
        self._working = ""
        """The agent whose lineage is worked on."""
        self._work: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks()
        self.tally = ConsumerCounts()

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Train until `stop`; then the step in hand is ended: the next process goes on with it."""
        kinds: tuple[type[Event], ...] = (*OF_TRAINING, ExperienceRecorded)
        bus = shared_events.bus
        async with (
            shared_events.subscribe(kinds, after=shared_events.seq) as heard,
            bus.serve(REQUESTS, partial(self._asked, bus)),
            OwnedTasks() as self._tasks,
        ):
            tasks = self._tasks
            stopped = tasks.start(stop.wait(), name="conch.trainer.stop")
            getting = tasks.start(heard.get(), name="conch.trainer.read")
            await self._follow_stored(bus)
            while not stop.is_set():
                waiting: set[asyncio.Future[Any]] = {getting, stopped, *([] if self._work is None else [self._work])}
                await asyncio.wait(waiting, timeout=self._look, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    for arrived in getting.result():
                        if arrived.is_event:
                            await self._hear(bus, arrived.event)
                    getting = tasks.start(heard.get(), name="conch.trainer.read")
                if self._work is not None and self._work.done():
                    self._ended(self._work)
                    self._work = None
                if self._work is None and not stop.is_set() and (agent := await self._next(bus)) is not None:
                    self._working = agent
                    self._work = tasks.start(self._step(bus, agent), name=f"conch.trainer.{agent}")

    async def _follow_stored(self, bus: Bus) -> None:
        """Follow the agents that have experiences already."""
        try:
            with store_location(self._settings.store.url, self._home.path).reader() as reader:
                agents = reader.agents()
        except NoStoreError:
            return
        for agent in set(agents) & set(self._home.agents()):
            await self._lineage(bus, agent)

    async def _lineage(self, bus: Bus, agent: str) -> FollowedLineage:
        """The lineage of an agent of this home. Raises UsageError for another one."""
        if (known := self._lineages.get(agent)) is None:
            if agent not in self._home.agents():
                raise UsageError(f"{agent} is no agent of {self._home.path}: its adapters are trained where it lives")
            settings = self._settings.model_copy(update={"agent": agent})
            state, count = LineageState(), 0
            try:
                with store_location(self._settings.store.url, self._home.path).reader() as reader:
                    state, last = await read_lineage(bus, reader, agent), reader.cycles.last_cycle(agent)
                    count = 0 if last is None else last + 1
            except NoStoreError:
                pass
            record = LineageLog(bus, agent, self._home.agentuid(agent), state)
            trainer = LineageTrainer(record, settings, self._home, self._engine, self._command)
            known = self._lineages[agent] = FollowedLineage(trainer, count)
        return known

    async def _hear(self, bus: Bus, event: Event) -> None:
        if event.agent not in self._lineages and event.agent not in self._home.agents():
            return
        lineage = await self._lineage(bus, event.agent)
        if isinstance(event, ExperienceRecorded):
            self.tally.handled += 1
            lineage.hear(event)
            return
        lineage.trainer.record.hear(event)
        lineage.is_changed = True
        if isinstance(event, AdapterPromoted | AdapterRolledBack):
            lineage.trainer.forget_acts()

    async def _next(self, bus: Bus) -> str | None:
        """The agent whose lineage has something to do now."""
        now = time.monotonic()
        for agent, lineage in self._lineages.items():
            if lineage.plan is not None:
                return agent
            if now < lineage.not_before:
                continue
            if lineage.is_changed:
                return agent
            if self._settings.mind.deciding.kind == "reflex":
                continue  # its agent freezes and judges its parameters by itself
            settings = self._settings.training
            moment = lineage.now()
            if not lineage.is_open and is_look(moment, settings) and why_not_yet(moment, settings) is None:
                busy = why_busy(await self._moment(bus, agent, lineage), settings)
                if busy is None:
                    lineage.is_due = True
                    return agent
        return None

    async def _moment(self, bus: Bus, agent: str, lineage: FollowedLineage) -> TrainerMoment:
        """What the schedule goes by, with what the agent and the machine do now."""
        entry = await bus.get(memory_key(agent))
        waiting, deadline = 0, None
        if entry is not None and entry.value:
            memory = MemoryRecord[AgentMemory].decode(entry.value).memory
            waiting = len(memory.waiting)
            ends = [one.goal.deadline for one in memory.goals.values() if one.goal.deadline is not None]
            deadline = min((end.timestamp() - time.time() for end in ends), default=None)
        return lineage.now(waiting, deadline, os.getloadavg()[0] / (os.cpu_count() or 1))

    async def _step(self, bus: Bus, agent: str) -> None:
        """What the lineage has to do, under its lease."""
        lineage = self._lineages[agent]
        await under_lease(bus, agent, lambda: self._leased(agent, lineage))

    async def _leased(self, agent: str, lineage: FollowedLineage) -> None:
        lineage.is_changed = False
        if lineage.plan is not None:
            plan, lineage.plan = lineage.plan, None
            await lineage.trainer.attempt(plan)
        elif lineage.is_due:
            lineage.is_due = False
            plan = await asyncio.to_thread(self._prepared, agent, lineage)
            await lineage.trainer.attempt(plan)
        while await lineage.trainer.advance() == "done":
            if not lineage.is_open:
                await self._tidy(lineage)
        await lineage.trainer.watch()

    def _prepared(self, agent: str, lineage: FollowedLineage, why: TrainingReason = "schedule") -> RoundPlan:
        """The plan of a round. Raises TrainingError where there is nothing to train on; the next look of the schedule
        is `training.every` cycles on."""
        lineage.looked = lineage.experiences
        with store_location(self._settings.store.url, self._home.path).reader() as reader:
            state = lineage.trainer.record.state
            return prepare_round(reader, lineage.trainer.settings, self._home, agent, state, why)

    async def _tidy(self, lineage: FollowedLineage) -> None:
        states = [one.trainer.record.state for one in self._lineages.values()]
        keep, record = self._settings.training.keep, lineage.trainer.record
        await asyncio.to_thread(tidy_rounds, self._home, states, keep)
        await drop_adapters(record.bus, record.agentuid, retained([record.state], keep))

    async def _asked(self, bus: Bus, subject: str, data: bytes) -> bytes:
        """The answer to a request; every refusal is a sentence."""
        try:
            request = TrainerRequest.decode(data)
            lineage = await self._lineage(bus, request.agent)
            match subject.rsplit(".", 1)[-1]:
                case "run":
                    return answer(said=await self._begin(lineage, request.agent))
                case "stop":
                    return answer(said=await self._stop(bus, lineage))
                case "promote":
                    return answer(said=await self._promote(lineage, request.adapter))
                case "rollback":
                    return answer(said=await self._roll_back(lineage, request.adapter))
                case verb:
                    return answer(error=f"a trainer is not asked to {verb}")
        except (ConchError, OSError) as error:
            return answer(error=str(error))

    async def _begin(self, lineage: FollowedLineage, agent: str) -> str:
        """Prepare a round that a person asked for; the loop begins it."""
        if lineage.preparing is not None or lineage.plan is not None or lineage.is_open:
            raise TrainingError(
                f"a round of {agent} is in progress: conch train show shows it, conch train stop ends it"
            )
        preparing = lineage.preparing = self._tasks.start(self._prepare(lineage, agent), name=f"conch.trainer.{agent}")
        await asyncio.wait({preparing}, timeout=PREPARE_SECONDS)
        if not preparing.done():
            return "the data of the round are being read; it begins then"
        plan = preparing.result()
        return f"round {plan.round[:12]} begins: {plan.method} on {plan.rows} rows. {plan.method_why}"

    async def _prepare(self, lineage: FollowedLineage, agent: str) -> RoundPlan:
        try:
            plan = await asyncio.to_thread(self._prepared, agent, lineage, "person")
            lineage.plan, lineage.not_before = plan, 0.0
            return plan
        except (ConchError, OSError) as error:
            self._note(agent, error)
            raise
        finally:
            lineage.preparing = None

    async def _stop(self, bus: Bus, lineage: FollowedLineage) -> str:
        record = lineage.trainer.record
        if lineage.preparing is not None:
            await cancel_and_wait(lineage.preparing)
        if self._work is not None and self._working == record.agent:
            await cancel_and_wait(self._work)
        if (plan := lineage.plan) is not None:
            lineage.plan = None
            return f"round {plan.round[:12]} is given up before it began"
        digest = await under_lease(bus, record.agent, lambda: stop_round(record))
        return f"round {digest[:12]} is stopped"

    async def _promote(self, lineage: FollowedLineage, adapter: str | None) -> str:
        if adapter is None:
            raise UsageError("name the adapter that is to act")
        record = lineage.trainer.record
        moved = await promote(record, self._home, adapter, by="person", why=BY_PERSON)
        lineage.trainer.forget_acts()
        return f"generation {moved.generation} acts from the next cycle on (move {moved.move})"

    async def _roll_back(self, lineage: FollowedLineage, adapter: str | None) -> str:
        moved = await roll_back(lineage.trainer.record, adapter, trigger="person", why=BY_PERSON)
        lineage.trainer.forget_acts()
        if moved is None:
            return "the trial is ended; what acted goes on"
        return f"generation {moved.generation} acts from the next cycle on (move {moved.move})"

    def _ended(self, work: asyncio.Task[None]) -> None:
        """Take the end of a step: what failed is tried again later."""
        lineage = self._lineages[self._working]
        if work.cancelled():
            return
        error = work.exception()
        if error is None:
            lineage.not_before = time.monotonic() + (0.0 if lineage.is_changed else self._look)
            return
        self.tally.failures += 1
        lineage.not_before, lineage.is_changed = time.monotonic() + RETRY_SECONDS, lineage.is_open
        log.warning("trainer.failed", agent_id=self._working, error=str(error))
        if not isinstance(error, ConchError | OSError):
            raise error
        if not isinstance(error, TrainerBusyError | BusError):
            self._note(self._working, error)

    def _note(self, agent: str, error: BaseException) -> None:
        """Tell the people at the run."""
        self._report(ConsumerNote(consumer="trainer", note=f"training of {agent}: {error}"))

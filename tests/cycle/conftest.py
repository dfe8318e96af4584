"""An agent over a journal: started, crashed and started again as often as a test asks for."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from conch.bus import MemoryBus, MemoryJournal, SharedSubscription, Stored, shared_subscription
from conch.config import Masker, Settings
from conch.cycle.acting.proven import ProvenAdapters
from conch.cycle.agent import Agent, prompt_limits
from conch.cycle.context import AgentContext
from conch.cycle.control import Control
from conch.cycle.effects.known import KnownLines
from conch.cycle.effects.meter import EffectMeter
from conch.cycle.hosting.host import AgentHost
from conch.cycle.hosting.runner import AgentRunner, RunStart
from conch.cycle.schedule import Schedule
from conch.cycle.state.recover import RecoveredAgent, RecoveryStart, recover, save
from conch.cycle.state.remembered import MemoryKeeper
from conch.cycle.team.context import TeamContext
from conch.memory import LongTermMemory
from conch.minds import Completion, FrozenShelf, Prompt, ReflexMind, Situation
from conch.tools import BUILTIN_TOOLS, FilePool, Notes, Sandbox, Tool, Toolbox
from conch.values import Values
from conch.workspace import MaterialScript
from conch_schemas import (
    ActionTaken,
    Event,
    ExperienceRecorded,
    MeasuredEffect,
    Usage,
    control_subject,
    decode,
    encode,
    subject_of,
)

AGENTUID = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"
SETTINGS = Settings.model_validate(
    {"cycle": {"interval": 0, "reflect_every": 2, "sleep": {"first": 0}}, "tools": {"sandbox": "off", "timeout": 5}}
)
E = TypeVar("E", bound=Event)


class Crash(BaseException):
    """The process dies here."""


class CrashingBus(MemoryBus):
    """Dies at the publish of this number, counted from 0: before it is stored, or stored but not acknowledged."""

    death = Crash

    def __init__(self, journal: MemoryJournal, at: int, *, stored: bool) -> None:
        super().__init__(journal)
        self._left, self._stored = at, stored

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        self._left -= 1
        if self._left >= 0:
            return await super().publish(subject, data, id=id)
        if self._stored:
            await super().publish(subject, data, id=id)
        raise Crash


class FakeMind:
    """Thinks numbered thoughts; decides what `decides` says of the situation; fails as often as it is told."""

    kind, model, learns = "fake", "fake-1", True

    def __init__(self) -> None:
        self.decides: Callable[[Situation], str] = lambda _: "DO_NOTHING: resting"
        self.thinks: Callable[[Situation], str] = lambda _: f"Thought {next(self._numbers)}."
        self.asked: list[Prompt] = []
        self.learnt: list[ExperienceRecorded] = []
        self.failures: list[Exception] = []
        self.usage = Usage()
        self._numbers = itertools.count()

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        says = {"think": self.thinks, "decide": self.decides}
        said = says[prompt.purpose](prompt.situation) if prompt.purpose in says else "It went."
        return Completion(said, "stop", self.usage, self.model, 0.1)

    def learn(self, experience: ExperienceRecorded) -> None:
        self.learnt.append(experience)

    async def close(self) -> None:
        pass

    def purposes(self) -> list[str]:
        return [prompt.purpose for prompt in self.asked]


class Life:
    """What outlives an agent's process: journal, workspace, notes, mind and tools."""

    def __init__(self, workspace: Path, notes: Notes) -> None:
        self.journal, self.workspace, self.notes = MemoryJournal(), workspace, notes
        self.mind: FakeMind = FakeMind()
        self.settings, self.tools = SETTINGS, list(BUILTIN_TOOLS)
        self.agentuid = AGENTUID
        self.values = Values()
        self.script: MaterialScript | None = None
        self.masker = Masker()
        self.batch = False
        self.turns, self.reading = asyncio.Semaphore(8), asyncio.Semaphore(8)
        self.known: KnownLines | None = None
        """The lines that the agent knows; None: its acts are not measured."""
        self.memories: Path | None = None
        """The file of its long memory; None: it has none."""
        self.adapters: ProvenAdapters | None = None
        """The adapters of its engine; None: it serves none."""
        self.frozen: tuple[ReflexMind, FrozenShelf] | None = None
        """Its reflex mind and where that is frozen; None: it is not."""
        self.outputs: Path | None = None
        """Where long outputs of its commands are kept; None: nowhere."""
        self.team: TeamContext | None = None
        """The team that it is; None: it is an agent alone."""
        self.said: list[tuple[str, str]] = []
        """What the control reported, of every start."""

    def configured(self, **sections: Any) -> None:
        """Change settings, a section at a time."""
        plain = self.settings.model_dump()
        for name, value in sections.items():
            plain[name] = plain[name] | value if isinstance(value, dict) else value
        self.settings = Settings.model_validate(plain)

    def add(self, tool: Tool) -> None:
        self.tools.append(tool)

    async def agent(self, bus: MemoryBus, *, beyond: int = 0) -> Agent:
        """A new process's agent, recovered from the journal; nothing is brought to it."""
        self.at = await recover(bus, self.settings.agent, self._origin(beyond))
        return self._made(SharedSubscription(bus, self.at.end), self._control(), self.at)

    def hosted(self, shared_events: SharedSubscription, until: int | None, *, beyond: int = 0) -> AgentRunner:
        """A new process's agent, to be hosted."""
        control = self._control()

        def make(at: RecoveredAgent, _: RunStart) -> Agent:
            self.at = at
            return self._made(shared_events, control, at)

        cycle_schedule = Schedule(self.settings.cycle.interval, None)
        origin = self._origin(beyond)
        return AgentRunner(
            self.settings.agent, origin, control, cycle_schedule, make, self.furnish, begun=RunStart(until, 0)
        )

    def _origin(self, beyond: int) -> RecoveryStart:
        return RecoveryStart(self.agentuid, beyond, room=prompt_limits(self.settings.mind).history_bytes)

    async def save(self, bus: MemoryBus) -> None:
        """Write down the memory of the agent that was made last."""
        await save(bus, self.settings.agent, self.agentuid, self.at)

    async def furnish(self) -> None:
        """There is nothing to be done."""

    def _control(self) -> Control:
        return Control(lambda state, why: self.said.append((state, why)), batch=self.batch)

    def _made(self, shared_events: SharedSubscription, control: Control, at: RecoveredAgent) -> Agent:
        body = AgentContext(
            shared_events, self.mind, Toolbox(self.tools, self.masker), Sandbox(self.settings.tools), self.notes,
            self.workspace,
            self.settings, self.values, self.agentuid, self.turns, self.reading, meter=self._meter(),
            script=lambda: self.script, long_memory=self._keeper(), masker=self.masker,
            adapters=self.adapters, frozen=self.frozen, team=self.team, outputs=self.outputs,
        )  # fmt: skip
        return Agent(body, at, control)

    def measures(self, file: Path) -> None:
        """Measure its acts from now on, with the known lines in `file`."""
        self.known = KnownLines(file, most=1000, pool=FilePool())

    def effects(self) -> list[MeasuredEffect | None]:
        """The measured effects of its acts, in order."""
        return [fact.effect for fact in self.facts(ActionTaken)]

    def _keeper(self) -> MemoryKeeper | None:
        if self.memories is None:
            return None
        return MemoryKeeper(LongTermMemory(self.memories, set_aside=True), self.settings.memory)

    def _meter(self) -> EffectMeter | None:
        if self.known is None:
            return None
        return EffectMeter(self.workspace, self.known, self.settings.effects, self.settings.rewards.test_programs)

    async def run(self, until: int | None, bus: MemoryBus | None = None, *, beyond: int = 0) -> Agent:
        """A process from its start to its end: every cycle below `until`."""
        async with (
            bus if bus is not None else MemoryBus(self.journal) as entered,
            shared_subscription(entered) as shared_events,
        ):
            one = self.hosted(shared_events, until, beyond=beyond)
            await AgentHost(shared_events, [one]).run()
            assert isinstance(one.agent, Agent)
            return one.agent

    async def crash(self, until: int, at: int, *, stored: bool) -> None:
        """A process that dies at the publish of this number. The server forgets the ids until the next one."""
        with pytest.raises(Crash):
            await self.run(until, CrashingBus(self.journal, at, stored=stored))
        self.journal.ids.clear()

    def facts(self, *kinds: type[Event]) -> list[Any]:
        """What stands on the stream, in order; of these kinds where some are named."""
        events = [decode(delivery.data) for delivery in self.journal.events.values()]
        return [event for event in events if not kinds or isinstance(event, kinds)]

    def lose_stream(self) -> None:
        """The stream is made anew; the bucket stays."""
        bucket, revision = self.journal.bucket, self.journal.revision
        self.journal = MemoryJournal(bucket=bucket, revision=revision)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with Notes(tmp_path / "notes.db") as notes:
        yield Life(workspace, notes)


@pytest.fixture(scope="session")
def make_life() -> type[Life]:
    """`make_life(workspace, notes)`: another agent's."""
    return Life


@pytest.fixture(scope="session")
def crashing_bus() -> type[CrashingBus]:
    """`crashing_bus(journal, at, stored=…)`."""
    return CrashingBus


class Running:
    """An agent that runs beside the test."""

    def __init__(self, life: Life, bus: MemoryBus, one: AgentRunner, task: asyncio.Task[None]) -> None:
        self.life, self.bus, self.one, self.task = life, bus, one, task
        assert isinstance(one.agent, Agent)
        self.agent = one.agent

    async def ask(self, verb: str, body: Any = None) -> dict[str, Any]:
        """A person's request, and the reply."""
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        reply = await self.bus.request(control_subject(self.agent.name, verb), data, timeout=5)
        found: dict[str, Any] = json.loads(reply)
        return found

    async def idle(self) -> None:
        """Time for the agent to do what it would do."""
        for _ in range(100):
            await asyncio.sleep(0)

    async def put(self, event: Event) -> None:
        """A fact of somebody else's."""
        await self.bus.publish(subject_of(event), encode(event), id=event.id)

    def cycles(self) -> Sequence[int]:
        """The cycles that are over."""
        return range(self.agent.memory.next_cycle - (self.agent.memory.thought is not None))


class Start(Protocol):
    """Starts agents."""

    async def __call__(self, until: int | None = None) -> Running:
        """One that has begun; `until`: the cycle that it ends before."""


@pytest.fixture
async def start(life: Life) -> AsyncIterator[Start]:
    """`running = await start()`: an agent without an end, until the test is over."""
    tasks: list[asyncio.Task[None]] = []
    stack = AsyncExitStack()

    async def begin(until: int | None = None) -> Running:
        bus = await stack.enter_async_context(MemoryBus(life.journal))
        shared_events = await stack.enter_async_context(shared_subscription(bus))
        one = life.hosted(shared_events, until)
        task = asyncio.create_task(AgentHost(shared_events, [one]).run(), name="life")
        tasks.append(task)
        while one.control.state == "starting" and not task.done():
            await asyncio.sleep(0)
        return Running(life, bus, one, task)

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await stack.aclose()

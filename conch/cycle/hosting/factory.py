"""Builds the agents of a process: constant dependencies are shared, the rest is made for each agent."""

from __future__ import annotations

import asyncio
import hashlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from conch.bus import Bus, SharedSubscription
from conch.config import SERVED, Masker, MindSettings, Settings, to_install
from conch.cycle.agent import Agent, prompt_limits
from conch.cycle.context import AgentContext
from conch.cycle.control import Control
from conch.cycle.effects.known import KnownLines
from conch.cycle.effects.meter import EffectMeter
from conch.cycle.hosting.furnish import WorkspaceFurnishing
from conch.cycle.hosting.questions import OpenQuestions
from conch.cycle.hosting.runner import AgentRunner, RunStart
from conch.cycle.model_retry import GIVE_UP_SECONDS
from conch.cycle.prompts.budget import UNREAD_KINDS
from conch.cycle.prompts.build import system_prompt
from conch.cycle.schedule import Schedule
from conch.cycle.state.count import CycleCount
from conch.cycle.state.recover import RecoveredAgent, RecoveryStart
from conch.cycle.state.remembered import MemoryKeeper
from conch.cycle.state.sent import RecordedMind
from conch.cycle.team.context import lead_mind, team_context, team_of
from conch.cycle.team.minds import with_role_minds
from conch.errors import ConfigError
from conch.home import Home
from conch.log import get_logger
from conch.memory import MEMORY_FILE, LongTermMemory, default_embedder
from conch.minds import Mind, MindFactory
from conch.processes import messages
from conch.snapshots import SNAPSHOTS, SnapshotKeeper
from conch.tasks import OwnedTasks
from conch.tools import (
    BUILTIN_TOOLS,
    GOAL_TOOL,
    FilePool,
    Notes,
    Sandbox,
    Tool,
    Toolbox,
    ToolFile,
    device_tools,
    load_tools,
    open_files,
    tell,
    unknown_tools,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conch.cycle.acting.engine import ServedEngineAdapters
    from conch.cycle.acting.proven import ProvenAdapters
    from conch.engine import TokenCounter
    from conch.minds import FrozenShelf, ReflexMind
    from conch.tools import McpServer

log = get_logger(__name__)

SERVES_ADAPTERS = ("openai", *SERVED)
"""The kinds of minds whose engine may serve adapters."""
ACTING_PER_CPU = 4
"""Agents per processor that use tools and run checks at once, of all processes together; the others wait for a slot."""
READING_PER_CPU = 16
"""The same for acts that only read: more of them publish in one group, which costs less."""
FEW_AGENTS = 100
"""Most agents of a run whose decisions are kept with their workspaces, and whose long memory is kept where their minds
do not read it: that one is a file of some 100 KiB each."""


class AgentsOrder(Protocol):
    """Which agents are to be made, and with what: a `Child`, or a caller in this process."""

    @property
    def spec(self) -> messages.AgentsSpec:
        """`agents` and what they share, as the supervisor writes it."""
        ...

    @property
    def settings(self) -> Settings:
        """Those of all of them."""
        ...

    @property
    def home(self) -> Path:
        """The home directory."""
        ...

    def report(self, report: messages.Report) -> None:
        """Take a change of an agent's state."""
        ...


class AgentFactory:
    """Makes the agents that an order's spec names. Entered as a context; left, it closes what it opened."""

    def __init__(self, child: AgentsOrder, shared_events: SharedSubscription, mind: Mind | None = None) -> None:
        """`mind`: of the only agent; None: the one that the settings name, for each."""
        self._child, self._shared_events, self._settings = child, shared_events, child.settings
        self._given = mind
        self._masker = Masker.of(child.settings)
        installed = load_tools(child.spec.tools) if child.spec.tools else ()
        builtin = [tool for tool in BUILTIN_TOOLS if tool.spec.name != GOAL_TOOL or child.settings.own_goals.open]
        if any(team_of(child.settings, spec.name) is not None for spec in child.spec.agents):
            builtin.append(tell)
        tools = (*builtin, *device_tools(child.settings.edge.actuators, shared_events.bus.request), *installed)
        self._toolbox, self._sandbox = Toolbox(tools, self._masker), Sandbox(child.settings.tools)
        self._servers: Sequence[McpServer] = ()
        self._tool_files = [ToolFile(file, child.settings.tools) for file in child.settings.tools.files]
        self._values = child.spec.values
        self._tool_slots, self._reading_slots = (
            asyncio.Semaphore(max(1, each * (os.cpu_count() or 1) // (1 + len(child.spec.others))))
            for each in (ACTING_PER_CPU, READING_PER_CPU)
        )
        first_word = None if child.spec.cycles is None else GIVE_UP_SECONDS
        self._role_minds = list[MindFactory]()
        endpoints = Home(child.home).endpoints
        self._made = MindFactory(child.settings.mind, first_word, child.settings.curiosity.bonus, endpoints)
        self._tokens = _counter(child.settings.mind)
        self._engine, self._adapters = _adapters(child.settings.mind, Home(child.home), shared_events.bus)
        self._questions = OpenQuestions(child.report)
        self._shelf = FilePool()
        self._minds: dict[str, Mind] = {}
        self._notes: list[Notes] = []
        self._counts: list[CycleCount] = []
        self._tasks = OwnedTasks()
        self._furnishing = WorkspaceFurnishing(Home(child.home), child.spec.workspace, self._tasks, child.spec.alone)
        self._known_lines = FilePool()
        self._meters: list[EffectMeter] = []
        self._memory_files, self._memories = FilePool(), list[MemoryKeeper]()
        self.agent_runner = [self._host(spec) for spec in child.spec.agents]
        self.dormant_agents = {
            name: RecoveryStart(agentuid, rests=True) for name, agentuid in child.spec.resting.items()
        }

    async def __aenter__(self) -> Self:
        """Start what the tools of a person's own run in. Raises ConchError where one of them cannot be used."""
        try:
            for tool in (*_web(self._settings), *await open_files(self._tool_files), *await self._of_servers()):
                self._toolbox.add(tool)
            for why in unknown_tools(self._settings.tools.policy, self._toolbox.registry.names):
                self._tell_of_tools(why)
        except BaseException:
            await self._close_tools()
            raise
        return self

    async def _of_servers(self) -> list[Tool]:
        if not self._settings.tools.mcp:
            return []
        try:
            from conch.tools import open_servers
        except ImportError:
            raise ConfigError(f"tools.mcp needs the extra mcp: {to_install('mcp')}") from None
        self._servers, tools = await open_servers(self._settings.tools.mcp, self._tell_of_tools)
        return tools

    def _tell_of_tools(self, why: str) -> None:
        log.warning("tools.servers", why=why)
        self._child.report(messages.AgentWaits(agent=self._child.spec.agents[0].name, state="tools", why=why))

    async def _close_tools(self) -> None:
        for server in self._servers:
            await server.close()
        for file in self._tool_files:
            await file.close()

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()
        await self._close_tools()
        self._questions.close()
        async with self._made:
            for mind in self._minds.values():
                await mind.close()
            for factory in self._role_minds:
                await factory.__aexit__()
            if self._tokens is not None:
                await self._tokens.close()
            if self._engine is not None:
                await self._engine.close()
        for notes in self._notes:
            notes.close()
        for count in self._counts:
            count.close()
        for meter in self._meters:
            meter.close()
        for memory in self._memories:
            memory.close()

    def _host(self, spec: messages.AgentStart) -> AgentRunner:
        name, alone = spec.name, self._child.spec.alone
        seed = self._settings.seed if alone else _seed(self._settings.seed, name)
        settings = self._settings.model_copy(update={"agent": name, "seed": seed})
        if (team := team_of(settings, name)) is not None:
            settings = settings.model_copy(update={"mind": lead_mind(settings, team)})
        origin = RecoveryStart(spec.agentuid, spec.beyond, spec.born, prompt_limits(settings.mind).history_bytes)
        base = self._child.spec.workspace
        workspace = base if alone else base / name

        def make(at: RecoveredAgent, begun: RunStart) -> Agent:
            self._child.report(messages.AgentBegun(agent=name, until=begun.until, decisions=begun.decisions))
            return Agent(self._body(settings, origin.agentuid, workspace, at, begun), at, control, cycle_schedule)

        async def furnish() -> None:
            if not alone:
                await self._furnishing.furnish(name, workspace)

        cycles = self._child.spec.cycles
        control = Control(lambda state, why: self._report(name, state, why), batch=cycles is not None)
        cycle_schedule = Schedule(settings.cycle.interval, None if alone else spec.place)
        begun = RunStart(found.until, found.decisions) if (found := spec.begun) is not None else None
        return AgentRunner(name, origin, control, cycle_schedule, make, furnish, cycles=cycles, begun=begun)

    def _report(self, name: str, state: str, why: str) -> None:
        if why:
            asks = state == "mind" and self._questions.is_open(name)
            self._child.report(messages.AgentWaits(agent=name, state=state, why=why, asks=asks))

    def _body(
        self, settings: Settings, agentuid: str, workspace: Path, at: RecoveredAgent, begun: RunStart
    ) -> AgentContext:
        home = Home(self._child.home)
        own = home.agent_dir(settings.agent)
        mind = self._minds.get(settings.agent)
        if mind is None:
            decided = at.memory.decisions - begun.decisions
            writes = settings.mind.reflex.writes or self._furnishing.is_ours(workspace)
            mind = self._given or self._made.make(
                seed=settings.seed,
                memory=home.reflex_file(settings.agent),
                decided=decided,
                writes=writes,
                commits=lambda: self._furnishing.is_sample(settings.agent, workspace),
                tell=lambda why: self._child.report(messages.AgentWaits(agent=settings.agent, state="mind", why=why)),
            )
            if (team := team_of(settings, settings.agent)) is not None:
                mind = with_role_minds(
                    mind, settings, team, own, at.memory.team, self._shared_events.bus, self._role_minds
                )
            if mind.kind not in UNREAD_KINDS or prompt_limits(settings.mind).is_read:
                mind = RecordedMind(mind, own)
            self._minds[settings.agent] = mind
        notes = Notes(own / "notes.db", shelf=None if self._child.spec.alone else self._shelf)
        self._notes.append(notes)
        count = CycleCount(own)
        self._counts.append(count)
        return AgentContext(
            shared_events=self._shared_events,
            mind=mind,
            toolbox=self._toolbox,
            sandbox=self._sandbox,
            notes=notes,
            workspace=workspace,
            settings=settings,
            values=self._values,
            agentuid=agentuid,
            tool_slots=self._tool_slots,
            asks=self._questions.of(settings.agent),
            reading_slots=self._reading_slots,
            count=count,
            meter=self._meter(own, workspace, settings),
            snapshots=self._snapshots(own, workspace, settings),
            long_memory=self._long_memory(own, settings),
            tokens=self._tokens,
            masker=self._masker,
            adapters=self._adapters,
            frozen=_frozen(mind, settings, home),
            team=team_context(settings, own),
            script=lambda: self._furnishing.script(settings.agent, workspace),
            outputs=own / "outputs",
        )

    def _snapshots(self, own: Path, workspace: Path, settings: Settings) -> SnapshotKeeper | None:
        """Keeps its decisions with their workspaces; None: they are not kept. Some 1 ms a cycle for 30 files, which a
        mind that reads prompts takes a thousand times."""
        wanted = settings.forks.snapshots
        if wanted == "never" or (wanted == "auto" and not (self._are_few and prompt_limits(settings.mind).is_read)):
            return None
        return SnapshotKeeper(own / SNAPSHOTS, workspace, settings.forks, self._masker)

    @property
    def _are_few(self) -> bool:
        spec = self._child.spec
        return len(spec.agents) + sum(other.number for other in spec.others) <= FEW_AGENTS

    def _long_memory(self, own: Path, settings: Settings) -> MemoryKeeper | None:
        """Its long memory; None where none is kept."""
        keep, spec, few = settings.memory.keep, self._child.spec, self._are_few
        is_read = prompt_limits(settings.mind).is_read
        if keep == "never" or (keep == "auto" and not few and not is_read):
            return None
        by_sense = is_read and settings.memory.recalled > 0 and settings.memory.embeddings == "auto"
        store = LongTermMemory(
            own / MEMORY_FILE,
            most=settings.memory.most,
            most_bytes=int(settings.memory.mib * 2**20),
            pool=None if spec.alone else self._memory_files,
            set_aside=True,
            embedder=default_embedder() if by_sense else None,
        )
        memory = MemoryKeeper(store, settings.memory)
        self._memories.append(memory)
        return memory

    def _meter(self, own: Path, workspace: Path, settings: Settings) -> EffectMeter:
        described = system_prompt(settings.agent, self._toolbox.registry, self._values)
        effects, programs = settings.effects, settings.rewards.test_programs
        known = KnownLines(own / "known.db", most=effects.known_lines, pool=self._known_lines, read_before=described)
        meter = EffectMeter(workspace, known, effects, programs)
        self._meters.append(meter)
        return meter


def _web(settings: Settings) -> list[Tool]:
    """The tool `http`. httpx2 is imported for it alone."""
    if not settings.tools.http.allow:
        return []
    from conch.tools import http_tools

    return http_tools(settings.tools.http)


def _counter(settings: MindSettings) -> TokenCounter | None:
    """Counts with the tokenizer of a llama.cpp server: the local engine, or one whose replies are held to a grammar.
    Another endpoint is asked nothing but chat completions. httpx2 is imported for these minds alone. Minds at two
    addresses may have two tokenizers: then none counts."""
    deciding = settings.deciding
    if deciding.kind not in SERVED and deciding.constrain != "grammar":
        return None
    if settings.thinking.base_url != deciding.base_url:
        return None
    from conch.engine import TokenCounter

    return TokenCounter(deciding.base_url, deciding.api_key)


def _seed(seed: int, name: str) -> int:
    """The random seed of one agent: with the same seed, all agents would act alike."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=6).digest())


def _adapters(
    settings: MindSettings, home: Home, bus: Bus
) -> tuple[ServedEngineAdapters | None, ProvenAdapters | None]:
    """The adapters of the engine of the mind that decides; None where that serves none. Nothing is opened yet."""
    names = [name for name, one in settings.blocks().items() if one == settings.deciding]
    if settings.deciding.kind not in SERVES_ADAPTERS:
        return None, None
    from conch.cycle.acting.engine import ServedEngineAdapters
    from conch.cycle.acting.proven import ProvenAdapters
    from conch.training import AdapterShelf, fetch_adapter

    engine, shelf = ServedEngineAdapters(settings.deciding, names[0]), AdapterShelf(home.adapters)
    return engine, ProvenAdapters(engine, shelf, fetch=partial(fetch_adapter, bus, shelf))


def _frozen(mind: Mind, settings: Settings, home: Home) -> tuple[ReflexMind, FrozenShelf] | None:
    """The reflex mind that decides and learns, and where its parameters are frozen; None: they are not."""
    if not settings.training.enabled or settings.mind.deciding.kind != "reflex":
        return None
    from conch.minds import FrozenShelf, MindChain, ReflexMind, StepMinds

    decides = mind.decides if isinstance(mind, StepMinds) else mind
    decides = decides.minds[0] if isinstance(decides, MindChain) else decides
    if not isinstance(decides, ReflexMind) or settings.mind.deciding.model == "random":
        return None
    return decides, FrozenShelf(home.generations(settings.agent))

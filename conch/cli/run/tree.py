"""The process tree of one run: starts and ends nats-server, agent, consumers and plug-in consumers."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from typing import Any, Final

from conch.bus import Access, Bus, EmbeddedServer
from conch.cli.common import CommonOptions, embedded_server
from conch.cli.programs import Programs, programs_of
from conch.cli.run.agents import AgentIdentity, agent_processes, members, spread
from conch.cli.run.describe import explain, introduce, report_judges, report_plugins, report_tools, summarize
from conch.cli.run.history import with_numbers
from conch.cli.run.output import RunOutput
from conch.cli.run.page import refuse_taken
from conch.cli.run.pending import PendingScores
from conch.cli.run.prepare import (
    claim,
    found,
    open_goals,
    read_only,
    ready,
    reconciled,
    refuse_judges,
    set_weights,
    unconfinable,
    without_strangers,
)
from conch.cli.run.reload import keep_reloading, taken_up
from conch.cli.run.reports import CONSUMERS, ChildReports
from conch.cli.run.shutdown import FINISH_MARGIN, RunningChildren, WatchedTask, agents_are_over, shut_down
from conch.cli.run.specs import ChildSpecs
from conch.cli.run.state import RunState
from conch.cli.run.summary import all_told
from conch.config import Settings
from conch.consumer.plugins import PAGE, ConsumerInfo, Discovery, PluginRow, reserved, together, wanted_builtin
from conch.cycle.hosting.claim import claimed
from conch.engine import checked_model, engine_module
from conch.errors import ConchError
from conch.home import Home
from conch.minds import refuse_minds
from conch.processes import (
    SERVER,
    SILENT_SECONDS,
    ChildProcess,
    ChildRecord,
    ForkedModule,
    ForkedProcess,
    Responsiveness,
    end_stale_sandboxes,
    ended,
    keep_asking,
    keep_server,
    messages,
    start_server,
)
from conch.retry import MOST_RESTARTS
from conch.tasks import OwnedTasks, background, cancel_and_wait, concurrently
from conch.tools import installed_tools
from conch.values import in_force

PAGE_NICE = 5
"""The dashboard's niceness against agents and consumers: a third of the processor where all want it."""
ENGINE: Final = "engine"
AGENT_MODULE: Final = "conch.cycle.hosting.process"
CONSUMER_MODULE: Final = "conch.consumer.process"


def first_children(
    settings: Settings, skipped: Set[str], processes: int, *, has_consumers: bool = True
) -> dict[str, ForkedModule]:
    """The children that a run forks before it begins, by name: those that run no code of plug-ins.

    `processes`: of agents.
    """
    children = {name: ForkedModule(AGENT_MODULE) for name in agent_processes(processes)}
    if not has_consumers:
        return children
    children[CONSUMERS] = ForkedModule(CONSUMER_MODULE)
    if PAGE in wanted_builtin(settings, skipped):
        children[PAGE] = ForkedModule(CONSUMER_MODULE, nice=PAGE_NICE)
    return children


class RunChildren:
    """Makes the child processes of a run, and adds each to its state."""

    def __init__(
        self, state: RunState, reports: ChildReports, run_output: RunOutput, forks: Mapping[str, ForkedProcess]
    ) -> None:
        self._state, self._reports, self._run_output, self._forks = state, reports, run_output, forks

    def agents(self) -> list[ChildProcess]:
        """The agent processes."""
        return [self._made(name, AGENT_MODULE, lasts=False) for name in agent_processes(self._state.processes)]

    def without(self, spare: Sequence[ChildProcess]) -> None:
        """End children that were not given a start spec: there are fewer agents than was planned."""
        for child in spare:
            child.kill()
            self._state.watched.remove(child.watched)

    def consumers(self) -> ChildProcess | None:
        """The process of all consumers that come with Conch."""
        return self._made(CONSUMERS, CONSUMER_MODULE) if self._state.has_consumers else None

    def plugins(self) -> list[tuple[ConsumerInfo, ChildProcess]]:
        """Plug-in consumers, each in a process of its own."""
        return [
            (plugin, self._made(plugin.name, CONSUMER_MODULE, secrets=False)) for plugin in self._state.wanted_plugins()
        ]

    def pages(self) -> list[ChildProcess]:
        """The dashboard, in a process of its own: its readers do not delay the consumers."""
        return [self._made(PAGE, CONSUMER_MODULE, nice=PAGE_NICE)] if PAGE in self._state.wanted_builtin() else []

    def engines(self) -> list[ChildProcess]:
        """The engine of the mind `local` or `transformers`, one for all agents. It has the agents' niceness: they wait
        for it."""
        module = engine_module(self._state.settings)
        return [self._made(ENGINE, module, secrets=False)] if self._state.model is not None else []

    def _made(self, name: str, module: str, *, lasts: bool = True, nice: int = 0, secrets: bool = True) -> ChildProcess:
        watched = ChildRecord(name)
        self._state.watched.append(watched)
        child = ChildProcess(
            watched,
            module,
            hear=self._reports.hear,
            changed=self._reports.write_down,
            tell=self._run_output.warn,
            lasts=lasts,
            nice=nice,
            secrets=secrets,
            first=self._forks.get(name) if secrets else None,
        )
        self._state.children.append(child)
        return child


class ProcessTree:
    """The processes of one run of one home, from the first start to the last end."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        agents: Sequence[str],
        cycles: int | None,
        rules: Sequence[str],
        skipped: frozenset[str],
        *,
        processes: int,
        reloads: bool,
        as_json: bool,
        forks: Mapping[str, ForkedProcess],
        has_consumers: bool = True,
    ) -> None:
        """`forks`: the first processes of children, by name (`first_children`); `processes`: of agents, 0 where
        programs act; `has_consumers`: False for a worker, which has agents named by number alone, on a bus that is
        there."""
        self._rules = rules
        acts = processes > 0
        names = list(agents) if acts else programs_of(home, settings.agent)
        self._state = RunState(
            home,
            settings,
            names,
            cycles,
            skipped,
            reloads,
            alone=len(names) == 1 and has_consumers,
            processes=processes,
            has_consumers=has_consumers,
        )
        self.begins_anew = False  # or True: it ended so that data of a person is removed, and is to begin again
        self._stop = asyncio.Event()
        self._run_output = RunOutput(self._stop, names, as_json=as_json, others=not acts)
        self._specs = ChildSpecs(self._state)
        self._reports = ChildReports(self._state, self._run_output)
        self._children = RunChildren(self._state, self._reports, self._run_output, forks)

    async def live(self, common: CommonOptions) -> None:
        """From the first process to the last. Raises ConchError with the exit code of what ended it."""
        own, state = asyncio.current_task(), self._state
        assert own is not None
        state.common = common
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(name, self._asked_to_stop, own)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._asked_to_forget)
        agents, consumers = self._children.agents(), self._children.consumers()
        server: EmbeddedServer | None = None
        tasks = OwnedTasks()
        try:
            await concurrently(ChildProcess.begin, state.children)  # they import while the rest is made ready
            discover = asyncio.to_thread(found, self._rules, state.skipped, state.settings)
            discovering = tasks.start(discover, name="conch.discover")
            state.settings = ready(state.home, state.settings, common, several=not state.alone)
            if state.has_consumers:
                await asyncio.to_thread(refuse_judges, state.settings, state.home, state.skipped)
            refuse_taken(state.settings.ui, state.skipped)
            if state.has_agent:
                await asyncio.to_thread(refuse_minds, state.settings.mind)
                state.tools = await asyncio.to_thread(installed_tools)
            if state.has_agent and (served := state.settings.mind.served) is not None:
                state.model = await asyncio.to_thread(checked_model, served)
            state.values = await asyncio.to_thread(in_force, state.settings.values)
            end_stale_sandboxes(state.workspaces)
            keeping: list[asyncio.Task[Any]] = []
            if state.settings.bus.url is None:
                server = embedded_server(state.home, state.settings, listens=True)
                watched = ChildRecord(SERVER)
                state.watched.insert(0, watched)
                await start_server(server, watched, changed=lambda: None)  # there is no address to write down yet
                keeping.append(tasks.start(keep_server(server, watched, self._reports.write_down), name=SERVER))
            state.embedded = server is not None
            settings = state.settings.bus
            state.access = server.access if server is not None else Access.of(settings)
            state.listener = server.listener if server is not None else None
            state.looked = await discovering
            state.found = together(state.looked, reserved(state.settings), state.settings)
            await self._with_bus(agents, consumers, tasks, keeping)
        finally:
            children = {child.watched.name for child in state.children}
            await ended([task for task in tasks.running if task.get_name() in children], 0.0)
            await tasks.close()
            await concurrently(ChildProcess.gone, state.children)
            end_stale_sandboxes(state.workspaces)
            if server is not None:
                await server.stop()
            state.home.run_file.unlink(missing_ok=True)
            self._run_output.close()

    async def _with_bus(
        self,
        agents: Sequence[ChildProcess],
        consumers: ChildProcess | None,
        tasks: OwnedTasks,
        keeping: Sequence[asyncio.Task[Any]],
    ) -> None:
        from conch.experience import store_location

        state = self._state
        async with _connected(state) as bus, _claimed(bus, state, tasks) as claims:
            identities = await _identities(bus, state, self._run_output)
            own = state.home.agentuid(state.settings.agent)
            await claim(bus, own, state.wanted_builtin(), state.access.shown)
            store = store_location(state.settings.store.url, state.home.path)
            born = (await bus.state()).last
            identities = await reconciled(bus, store, identities, self._run_output.warn)
            identities = await with_numbers(bus, state.home, identities, self._run_output.warn)
            await set_weights(bus, identities, state.settings, state.found)
            base, listener, embedded = state.workspace, state.listener, state.embedded
            introduce(
                self._run_output,
                state.settings,
                state.home,
                state.agents,
                base,
                listener,
                processes=state.processes,
                embedded=embedded,
                has_agent=state.has_agent,
            )
            goals = await _explained(bus, state, self._run_output) if state.has_agent else []
            report_judges(self._run_output, state.settings, state.skipped)
            report_plugins(self._run_output, state.settings, state.found)
            report_tools(self._run_output, state.tools)
            end = (await bus.state()).last
            state.since = end
            start = tasks.start
            printing = start(self._run_output.cycles(bus, end, goals), name="conch.print")
            [bus_watched] = [one for one in state.watched if one.name == SERVER] or [
                ChildRecord(f"the bus at {state.access.shown}")
            ]
            response = Responsiveness(bus_watched, SILENT_SECONDS, self._reports.write_down, self._run_output.warn)
            watching: list[asyncio.Task[Any]] = [
                *keeping,
                *claims,
                printing,
                start(keep_asking(bus, response), name="conch.bus.heartbeat"),
                start(response.keep_looking(), name="conch.bus.response"),
            ]
            scoring = None
            if consumers is not None:
                scoring = WatchedTask(consumers, start(consumers.live(self._specs.consumers), name=CONSUMERS))
            plugins = [
                WatchedTask(child, start(child.live(self._specs.plugin(plugin)), name=plugin.name))
                for plugin, child in self._children.plugins()
            ]
            shares = spread(identities, state.processes) if state.has_agent else []
            self._children.without(agents[len(shares) :])
            acting = [
                WatchedTask(child, start(child.live(spec), name=child.watched.name))
                for child, spec in zip(agents, self._specs.agents(shares, born), strict=False)
            ]
            page = [
                WatchedTask(child, start(child.live(self._specs.page), name=PAGE)) for child in self._children.pages()
            ]
            engine = [
                WatchedTask(child, start(child.live(self._specs.engine), name=ENGINE))
                for child in self._children.engines()
            ]
            named = state.settings.ui.port is not None
            tree = RunningChildren(acting, scoring, plugins, page, named, engine)
            watching += [kept.living for kept in (*tree.scoring, *tree.agents)]
            if not state.has_agent:
                programs = Programs(bus, state, identities, self._run_output, self._reports.write_down)
                watching.append(start(programs.keep_welcoming(end), name="conch.programs"))
            if state.reloads and consumers is not None:
                renewed = functools.partial(self._renew, bus, identities, consumers)
                watching.append(start(keep_reloading(state.looked, renewed), name="conch.reload"))
            waiting = PendingScores(self._run_output, store)
            if "store" in state.wanted_builtin():
                watching.append(start(waiting.keep_saying(), name="conch.waiting"))
            await self._until_over(tree, watching)
            if state.model is not None and not state.engine.up.is_set():
                for kept in tree.agents:
                    kept.living.cancel()  # it waits for an engine that does not come
            waiting.anew()
            if state.page is None:  # nobody has seen it: a short run does not wait for it to begin
                for kept in page:
                    kept.child.end()
                    kept.child.kill()
            counted = state.cycles is not None
            await shut_down(tree, state.settings, self._stop, state.home.logs, counted=counted)
            if counted:
                seconds = state.settings.rewards.longest_deadline + FINISH_MARGIN
                here = "store" in state.wanted_builtin()
                await all_told(bus, self._run_output, state.agents, end, self._stop, seconds=seconds, here=here)
            await asyncio.sleep(0)
            self._run_output.report_states()
            await cancel_and_wait(printing)
            if not printing.cancelled():
                printing.result()
            summarize(
                self._run_output,
                state.home,
                len(goals) * len(state.agents),
                has_page=state.settings.ui.enabled and PAGE not in state.skipped,
            )
            if counted and state.failed:
                raise next(iter(state.failed.values()))

    async def _until_over(self, tree: RunningChildren, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Return when the agents have ended, a stop was requested, or a child cannot go on."""
        state, living = self._state, {kept.living for kept in (*tree.agents, *tree.scoring)}
        async with background(self._stop.wait(), name="conch.stop") as stopping:
            watching: set[asyncio.Task[Any]] = {*tasks, stopping}
            while True:
                async with background(state.rested.wait(), name="conch.rested") as resting:
                    done, _ = await asyncio.wait({*watching, resting}, return_when=asyncio.FIRST_COMPLETED)
                done.discard(resting)
                state.rested.clear()
                for task in done - {*living, stopping}:
                    task.result()  # the server that kept dying: raises
                if tree.fatal() is not None or stopping in done:
                    return
                if agents_are_over(tree.agents, state.at_rest, counted=state.cycles is not None):
                    return
                watching -= done
                for task in done:
                    if task.result() != 0:
                        self._run_output.warn(_down(state, task.get_name()))

    async def _renew(
        self, bus: Bus, identities: Sequence[AgentIdentity], consumers: ChildProcess, file: str, found: Discovery
    ) -> None:
        """Put in force what a rule file says now; where that cannot be, what it said before stays in force."""
        state, output = self._state, self._run_output
        taken = await taken_up(bus, identities, state.settings, state.common, state.looked, file, found, output)
        if taken is not None:
            state.looked, state.found = taken
            consumers.tell(messages.ChangeRules[PluginRow](rules=tuple(state.wanted_rules())))
            self._reports.write_down()

    def _asked_to_forget(self) -> None:
        """End in order, to begin again behind the removal. A run with a set number of cycles ends by itself first."""
        if self._state.cycles is None and not self._stop.is_set():
            self.begins_anew = True
            self._run_output.tell("the run pauses: data of a person is removed")
            self._stop.set()

    def _asked_to_stop(self, run: asyncio.Task[Any]) -> None:
        """The first time in order, the second time at once: what is in hand is finished by the next run."""
        if self._stop.is_set():
            run.cancel()
        self.begins_anew = False
        self._stop.set()


def _down(state: RunState, name: str) -> str:
    """Why the child of this name is not started again, in a sentence."""
    [child] = [child for child in state.children if child.watched.name == name]
    often = f"it died {MOST_RESTARTS} times in a minute, see {state.home.logs}"
    return f"{name} stays down: {child.fatal[0] if child.fatal is not None else often}"


@asynccontextmanager
async def _connected(state: RunState) -> AsyncIterator[Bus]:
    """The bus of the run."""
    from conch.bus.jetstream import JetStreamBus
    from conch.cli.common import stream_bytes

    async with JetStreamBus(
        state.access,
        name="conch-run",
        max_bytes=stream_bytes(state.settings) if state.embedded else -1,
        replicas=1 if state.embedded else state.settings.bus.replicas,
        strict=state.settings.bus.durability == "strict",
    ) as bus:
        yield bus


@asynccontextmanager
async def _claimed(bus: Bus, state: RunState, tasks: OwnedTasks) -> AsyncIterator[Sequence[asyncio.Task[Any]]]:
    """The task that keeps the run's claim on its agents, on a bus that other runs reach; on the run's own server none,
    as the home has one run at a time. Raises AgentsBusyError."""
    if state.embedded or not state.has_agent:
        yield ()
        return
    async with claimed(bus, state.home.path, state.agents) as claim:
        keeping = tasks.start(claim.keep(), name="conch.claim")
        try:
            yield (keeping,)
        finally:
            await cancel_and_wait(keeping)


async def _explained(bus: Bus, state: RunState, run_output: RunOutput) -> list[str]:
    """The open goals, after the person at the terminal was told what the agent works on."""
    goals = await open_goals(bus, state.agents[0], state.settings)
    explain(run_output, state.home, state.agents, state.workspaces, goals)
    for sentence in (
        await asyncio.to_thread(read_only, state.home, state.settings, state.workspaces),
        await asyncio.to_thread(unconfinable, state.settings),
    ):
        if sentence is not None:
            run_output.warn(sentence)
    return goals


async def _identities(bus: Bus, state: RunState, run_output: RunOutput) -> list[AgentIdentity]:
    """The agents that can act. Raises what keeps out the first, where none can."""
    identities, homeless = await asyncio.to_thread(members, state.home, state.agents)
    identities, strangers = await without_strangers(bus, identities)
    left_out: dict[str, ConchError] = {**homeless, **strangers}
    if not identities:
        raise left_out[state.agents[0]]
    for name, error in left_out.items():
        run_output.warn(f"{name} is left out: {error}")
    state.failed |= left_out
    state.agents = [identity.name for identity in identities]
    return identities

"""The process tree of one run: starts and ends nats-server, agent, consumers and plug-in consumers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from conch.auth import called
from conch.bus import Access, Bus, EmbeddedServer, MqttListener
from conch.cli.common import CommonOptions, embedded_server
from conch.cli.run.agents import AgentIdentity, members, workspace_of
from conch.cli.run.describe import address, for_plugins, introduce, report_judges, report_plugins
from conch.cli.run.history import with_numbers
from conch.cli.run.output import RunOutput
from conch.cli.run.page import refuse_taken, report_page
from conch.cli.run.pending import PendingScores
from conch.cli.run.prepare import claim, found, ready, reconciled, refuse_judges, set_weights, without_strangers
from conch.cli.run.reload import keep_reloading, taken_up
from conch.cli.run.shutdown import FINISH_MARGIN, RunningChildren, WatchedTask, shut_down
from conch.cli.run.summary import all_told
from conch.config import Settings, chosen_file
from conch.config.model import METRICS_PORT
from conch.consumer.plugins import PAGE, ConsumerInfo, Discovery, PluginRow, reserved, row_of, together, wanted_builtin
from conch.errors import ConchError
from conch.home import Home, write_whole
from conch.processes import (
    SERVER,
    SILENT_SECONDS,
    ChildProcess,
    ChildRecord,
    Responsiveness,
    end_stale_sandboxes,
    ended,
    keep_asking,
    keep_server,
    messages,
    start_server,
)
from conch.retry import MOST_RESTARTS
from conch.rules import RuleInfo
from conch.run_info import ProcessInfo, RunInfo, SetAsidePlugin
from conch.trusted import workspace_in
from conch.values import Values, in_force

CONSUMERS = "consumers"
"""Name of the process of all consumers that come with Conch, and of /metrics."""
PAGE_NICE = 5
"""The dashboard's niceness against agents and consumers: a third of the processor where all want it."""


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
        reloads: bool,
        as_json: bool,
    ) -> None:
        self._home, self._settings, self._cycles, self._rules = home, settings, cycles, rules
        self._agents, self._alone = list(agents), len(agents) == 1
        """Their names; agents that cannot act in this run are reported and taken out."""
        self._skipped = skipped
        self._common = CommonOptions()
        self._watched: list[ChildRecord] = []
        self._children: list[ChildProcess] = []
        self._begun: dict[str, messages.AgentBegun] = {}
        """Each agent's position at its first start."""
        self._failed: dict[str, ConchError] = {}
        """The errors of agents that did not go on."""
        self._metrics: str | None = None
        self._since: int | None = None
        """The end of the stream when this run began, until the consumers were given it."""
        self._page: str | None = None
        """The address of the dashboard."""
        self._reloads = reloads
        self._looked: Mapping[str, Discovery] = {}
        """The declarations of each file and package."""
        self._found = Discovery()
        self._values = Values()
        """Read once, before the first process: an agent that is started again has the same values."""
        self._access = Access("")
        self._embedded = True
        self._listener: MqttListener | None = None
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._stop = asyncio.Event()
        self._run_output = RunOutput(self._stop, agents, as_json=as_json)

    async def live(self, common: CommonOptions) -> None:
        """From the first process to the last. Raises ConchError with the exit code of what ended it."""
        own = asyncio.current_task()
        assert own is not None
        self._common = common
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(name, self._asked_to_stop, own)
        agent = self._child("agent", "conch.cycle.hosting.process", lasts=False)
        consumers = self._child(CONSUMERS, "conch.consumer.process")
        server: EmbeddedServer | None = None
        tasks: list[asyncio.Task[Any]] = []
        try:
            await asyncio.gather(agent.begin(), consumers.begin())  # they import while the rest is made ready
            discovering = asyncio.create_task(asyncio.to_thread(found, self._rules, self._skipped, self._settings))
            self._settings = ready(self._home, self._settings, common, several=len(self._agents) > 1)
            await asyncio.to_thread(refuse_judges, self._settings, self._home, self._skipped)
            refuse_taken(self._settings.ui, self._skipped)
            self._values = await asyncio.to_thread(in_force, self._settings.values)
            end_stale_sandboxes(self._workspaces)
            if self._settings.bus.url is None:
                server = embedded_server(self._home, self._settings, listens=True)
                watched = ChildRecord(SERVER)
                self._watched.insert(0, watched)
                await start_server(server, watched, changed=lambda: None)  # there is no address to write down yet
                tasks.append(asyncio.create_task(keep_server(server, watched, self._write_down), name=SERVER))
            self._embedded = server is not None
            settings = self._settings.bus
            self._access = server.access if server is not None else Access.of(settings)
            self._listener = server.listener if server is not None else None
            self._looked = await discovering
            self._found = together(self._looked, reserved(self._settings), self._settings)
            await self._with_bus(agent, consumers, tasks)
        finally:
            children = {child.watched.name for child in self._children}
            await ended([task for task in tasks if task.get_name() in children], 0.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(child.gone() for child in self._children))
            end_stale_sandboxes(self._workspaces)
            if server is not None:
                await server.stop()
            self._home.run_file.unlink(missing_ok=True)

    async def _with_bus(self, agent: ChildProcess, consumers: ChildProcess, tasks: list[asyncio.Task[Any]]) -> None:
        from conch.bus.jetstream import JetStreamBus
        from conch.cli.common import stream_bytes
        from conch.experience import store_path

        async with JetStreamBus(
            self._access,
            name="conch-run",
            max_bytes=stream_bytes(self._settings) if self._embedded else -1,
            replicas=1 if self._embedded else self._settings.bus.replicas,
            strict=self._settings.bus.durability == "strict",
        ) as bus:
            identities = await self._identities(bus)
            own = self._home.agentuid(self._settings.agent)
            await claim(bus, own, self._wanted_builtin(), self._access.shown)
            store = store_path(self._settings.store.url, self._home.path)
            born = (await bus.state()).last
            identities = await reconciled(bus, store, identities, self._run_output.warn)
            identities = await with_numbers(bus, self._home, identities, self._run_output.warn)
            await set_weights(bus, identities, self._settings, self._found)
            base, listener, embedded = self._workspace, self._listener, self._embedded
            introduce(self._run_output, self._settings, self._home, self._agents, base, listener, embedded=embedded)
            report_judges(self._run_output, self._settings, self._skipped)
            report_plugins(self._run_output, self._settings, self._found)
            end = (await bus.state()).last
            self._since = end
            printing = asyncio.create_task(self._run_output.cycles(bus, end), name="conch.print")
            start = asyncio.create_task
            [bus_watched] = [one for one in self._watched if one.name == SERVER] or [
                ChildRecord(f"the bus at {self._access.shown}")
            ]
            response = Responsiveness(bus_watched, SILENT_SECONDS, self._write_down, self._run_output.warn)
            tasks += [
                printing,
                start(keep_asking(bus, response), name="conch.bus.heartbeat"),
                start(response.keep_looking(), name="conch.bus.response"),
            ]
            scoring = start(consumers.live(self._consumers_spec), name=CONSUMERS)
            plugins = [
                WatchedTask(child, start(child.live(self._plugin_spec(plugin)), name=plugin.name))
                for plugin, child in self._plugins()
            ]
            acting = start(agent.live(functools.partial(self._agent_spec, identities, born)), name="agent")
            page = [WatchedTask(child, start(child.live(self._page_spec), name=PAGE)) for child in self._pages()]
            named = self._settings.ui.port is not None
            tree = RunningChildren(WatchedTask(agent, acting), WatchedTask(consumers, scoring), plugins, page, named)
            tasks += [*(kept.living for kept in tree.scoring), acting]
            if self._reloads:
                renewed = functools.partial(self._renew, bus, identities, consumers)
                tasks.append(start(keep_reloading(self._looked, renewed), name="conch.reload"))
            waiting = PendingScores(self._run_output, store)
            if "store" in self._wanted_builtin():
                tasks.append(start(waiting.keep_saying(), name="conch.waiting"))
            await self._until_over(tree, tasks)
            waiting.anew()
            if self._page is None:  # not opened yet: a short run does not wait for its start
                for kept in page:
                    kept.child.end()
                    kept.child.kill()
            counted = self._cycles is not None
            await shut_down(tree, self._settings, self._stop, self._home.logs, counted=counted)
            if counted:
                seconds = self._settings.rewards.longest_deadline + FINISH_MARGIN
                here = "store" in self._wanted_builtin()
                await all_told(bus, self._run_output, self._agents, end, self._stop, seconds=seconds, here=here)
            await asyncio.sleep(0)
            self._run_output.report_states()
            printing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await printing
            if counted and self._failed:
                raise next(iter(self._failed.values()))

    async def _identities(self, bus: Bus) -> list[AgentIdentity]:
        """The agents that can act. Raises what keeps out the first, where none can."""
        identities, homeless = await asyncio.to_thread(members, self._home, self._agents)
        identities, strangers = await without_strangers(bus, identities)
        left_out: dict[str, ConchError] = {**homeless, **strangers}
        if not identities:
            raise left_out[self._agents[0]]
        for name, error in left_out.items():
            self._run_output.warn(f"{name} is left out: {error}")
        self._failed |= left_out
        self._agents = [identity.name for identity in identities]
        return identities

    async def _until_over(self, tree: RunningChildren, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Return when the agent has ended, a stop was requested, or a child cannot go on."""
        stopping = asyncio.create_task(self._stop.wait(), name="conch.stop")
        acting, living = tree.agent.living, {kept.living for kept in (tree.agent, *tree.scoring)}
        watching: set[asyncio.Task[Any]] = {*tasks, stopping}
        try:
            while True:
                done, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {*living, stopping}:
                    task.result()  # the server that kept dying: raises
                if tree.fatal() is not None or stopping in done:
                    return
                if acting in done and (acting.result() == 0 or self._cycles is not None):
                    return
                for task in done:
                    watching.discard(task)
                    self._report_down(task.get_name())
        finally:
            stopping.cancel()

    def _report_down(self, name: str) -> None:
        [child] = [child for child in self._children if child.watched.name == name]
        often = f"it died {MOST_RESTARTS} times in a minute, see {self._home.logs}"
        self._run_output.warn(f"{name} stays down: {child.fatal[0] if child.fatal is not None else often}")

    async def _renew(
        self, bus: Bus, identities: Sequence[AgentIdentity], consumers: ChildProcess, file: str, found: Discovery
    ) -> None:
        """Apply a rule file's new declarations; where that fails, the old ones stay in force."""
        taken = await taken_up(
            bus, identities, self._settings, self._common, self._looked, file, found, self._run_output
        )
        if taken is not None:
            self._looked, self._found = taken
            consumers.tell(messages.ChangeRules[PluginRow](rules=tuple(self._wanted_rules())))
            self._write_down()

    # -- messages to the children ------------------------------------------------------------------------------------

    def _child(
        self, name: str, module: str, *, lasts: bool = True, nice: int = 0, secrets: bool = True
    ) -> ChildProcess:
        watched = ChildRecord(name)
        self._watched.append(watched)
        child = ChildProcess(
            watched,
            module,
            hear=self._hear,
            changed=self._write_down,
            tell=self._run_output.warn,
            lasts=lasts,
            nice=nice,
            secrets=secrets,
        )
        self._children.append(child)
        return child

    def _plugins(self) -> list[tuple[ConsumerInfo, ChildProcess]]:
        """Plug-in consumers, each in a process of its own."""
        wanted = [plugin for plugin in self._found.consumers if plugin.name not in self._skipped]
        return [(plugin, self._child(plugin.name, "conch.consumer.process", secrets=False)) for plugin in wanted]

    def _pages(self) -> list[ChildProcess]:
        """The dashboard, in a process of its own: readers of pages do not slow scoring down."""
        return [self._child(PAGE, "conch.consumer.process", nice=PAGE_NICE)] if PAGE in self._wanted_builtin() else []

    async def _agent_spec(self, identities: Sequence[AgentIdentity], born: int) -> messages.AgentsStart:
        agents = self._home.agents()
        return messages.AgentsStart(
            settings=self._settings,
            home=self._home.path,
            access=self._access,
            cycles=self._cycles,
            agents=tuple(
                messages.AgentStart(
                    name=one.name,
                    agentuid=one.agentuid,
                    beyond=one.beyond,
                    born=born if one.fresh else None,
                    begun=self._begun.get(one.name),
                )
                for one in identities
            ),
            resting={name: agentuid for name, agentuid in agents.items() if name not in self._agents},
            workspace=self._workspace,
            alone=self._alone,
            values=self._values,
        )

    @property
    def _workspace(self) -> Path:
        return workspace_in(self._home, self._settings)

    @property
    def _workspaces(self) -> list[Path]:
        return [workspace_of(self._workspace, name, alone=self._alone) for name in self._agents]

    def _consumers(self, name: str, settings: Settings) -> messages.ConsumersStart[PluginRow]:
        """The start of a process that hosts no consumer yet."""
        return messages.ConsumersStart[PluginRow](
            settings=settings,
            home=self._home.path,
            access=self._access,
            name=f"conch-{name}",
            agents=tuple(self._agents),
        )

    async def _consumers_spec(self) -> messages.ConsumersStart[PluginRow]:
        since, self._since = self._since, None  # started again, they go on from the end
        return self._consumers("consumers", self._settings).model_copy(
            update={
                "builtin": tuple(name for name in self._wanted_builtin() if name != PAGE),
                "plugins": tuple(self._wanted_rules()),
                "keeps": True,
                "reloads": self._reloads,
                "since": since,
            }
        )

    def _wanted_builtin(self) -> list[str]:
        return wanted_builtin(self._settings, self._skipped)

    def _wanted_rules(self) -> list[RuleInfo]:
        return [rule for rule in self._found.rules if not {rule.name, rule.consumer} & self._skipped]

    async def _page_spec(self) -> messages.ConsumersStart[PluginRow]:
        """Started again, it listens where it did: an open page goes on."""
        ui = self._settings.ui
        if self._page is not None:
            ui = ui.model_copy(update={"port": urlsplit(self._page).port})
        settings = self._settings.model_copy(update={"ui": ui})
        return self._consumers("dashboard", settings).model_copy(update={"builtin": (PAGE,)})

    def _plugin_spec(self, plugin: ConsumerInfo) -> Callable[[], Awaitable[messages.ConsumersStart[PluginRow]]]:
        async def spec() -> messages.ConsumersStart[PluginRow]:
            start = self._consumers(plugin.name, for_plugins(self._settings))
            return start.model_copy(update={"plugins": (plugin,)})

        return spec

    # -- output ------------------------------------------------------------------------------------------------------

    def _hear(self, watched: ChildRecord, report: messages.Report) -> None:
        """A report of a child."""
        match report:
            case messages.AgentBegun():
                self._begun[report.agent] = report
            case messages.AgentFailed():
                self._failed[report.agent] = error = ConchError(f"{report.agent}: {report.error}")
                error.exit_code = report.exit_code
            case messages.AgentWaits():
                self._run_output.state(report.agent, report.state, report.why)
            case messages.ConsumerNote():
                self._run_output.warn(f"! {report.consumer}: {report.note}")
            case messages.PluginMetricsReported():
                shown = next(one for one in self._children if one.watched.name == CONSUMERS)
                shown.tell(messages.ShowPluginMetrics(process=watched.name, metrics=report.metrics))
            case _:
                self._hear_of_consumers(watched, report)
                self._write_down()

    def _hear_of_consumers(self, watched: ChildRecord, report: messages.Report) -> None:
        """A report that `conch status` shows, too."""
        match report:
            case messages.MetricsServed():
                self._metrics = report.url
                moved = self._settings.metrics.port is None and f":{METRICS_PORT}/" not in self._metrics
                note = f" (port {METRICS_PORT} is taken)" if moved else ""
                self._run_output.tell(f"metrics {self._metrics}{note}")
            case messages.PageServed() if self._page != report.url:
                self._page = report.url
                report_page(self._run_output, self._settings.ui, self._home, self._page)
            case messages.ConsumerWaits():
                waits = f"{report.consumer} waits: "
                if report.why:
                    watched.why = f"{waits}{report.why}"
                    self._run_output.warn(watched.why)
                elif watched.why.startswith(waits):
                    watched.why = ""
            case messages.ConsumerDown() | messages.ConsumerBroke():
                watched.why = report.why
                how = "stays down" if isinstance(report, messages.ConsumerDown) else "broke"
                self._run_output.warn(f"consumer {report.consumer} {how}: {watched.why}")

    def _write_down(self) -> None:
        """Write run.json, which `conch status` and the other commands read."""
        from conch.experience import store_path

        file = chosen_file(self._common.config, self._home)
        run = RunInfo(
            pid=os.getpid(),
            agents=tuple(self._agents),
            config=str(file.absolute()) if file else None,
            started=self._started,
            bus=address(self._access, embedded=self._embedded),
            metrics=self._metrics,
            ui=called(self._settings.ui, self._page) if self._page is not None else None,
            mqtt=self._listener.address if self._listener is not None else None,
            store=str(store_path(self._settings.store.url, self._home.path)),
            workspace=str(self._workspace),
            processes=tuple(
                ProcessInfo(name=one.name, pid=one.pid, state=one.state, restarts=one.restarts, why=one.why)
                for one in self._watched
            ),
            consumers=(
                *self._wanted_builtin(),
                *(rule.consumer for rule in self._wanted_rules()),
                *(plugin.name for plugin in self._found.consumers if plugin.name not in self._skipped),
            ),
            rules=tuple(row_of(replace(rule, text=None)) for rule in self._found.rules),
            set_aside=tuple(SetAsidePlugin(origin=broken.origin, why=broken.why) for broken in self._found.broken),
        )
        with contextlib.suppress(OSError):  # a full disk: the run goes on, status is stale
            write_whole(self._home.run_file, run.encode())

    def _asked_to_stop(self, run: asyncio.Task[Any]) -> None:
        """The first time in order, the second time at once: what is in hand is finished by the next run."""
        if self._stop.is_set():
            run.cancel()
        self._stop.set()

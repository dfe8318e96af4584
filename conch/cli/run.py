"""`conch run`: the whole agent, its bus and its consumers, in one supervised tree."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import functools
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid5

from cyclopts import Parameter

from conch.bus import Bus
from conch.bus.server import EmbeddedServer
from conch.cli.common import Common, embedded_server, emit, say, token_of, warn
from conch.cli.options import COMMON
from conch.config import BUILTIN_WEIGHTS, Settings
from conch.config.mask import masked
from conch.consumer.discover import Found, Plugin, builtin_names, discover
from conch.errors import BusError, ConchError, UsageError
from conch.home import Home, write_whole
from conch.leftovers import end_stale_sandboxes
from conch.supervisor import DEATHS, GRACE_SECONDS, ChildProcess, Watched, ended, first_fatal, keep_server
from conch.telemetry import configure

STOP_SECONDS = 5.0
"""Time, after a request to stop, for what was done to be scored and recorded; the rest is at the next start."""
OWNER_KEY = "home"
"""The bucket's key that says whose consumers read the stream: the UUID of that home's agent."""
DEFAULT_METRICS_PORT = 9464
FINISH_MARGIN = 60.0
"""Time beyond the longest deadline for a set number of cycles to be recorded."""


def run(
    *,
    common: Common = COMMON,
    workspace: Annotated[Path | None, Parameter(help="Directory the agent works in.")] = None,
    cycles: Annotated[int | None, Parameter(help="End after so many more cycles, all recorded.")] = None,
    interval: Annotated[float | None, Parameter(help="Seconds from one cycle to the next.")] = None,
    mind: Annotated[str | None, Parameter(help="reflex, openai or scripted.")] = None,
    script: Annotated[Path | None, Parameter(help="File of replies for the scripted mind.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed of everything that is drawn.")] = None,
    rules: Annotated[
        list[Path] | None, Parameter(help="Python file of @rule and @consumer plug-ins; repeatable.")
    ] = None,
    without: Annotated[
        list[str] | None, Parameter(help="Consumers not to run here, by name, separated by commas.")
    ] = None,
    metrics_port: Annotated[
        int | None, Parameter(help="TCP port of /metrics; without it a free one near 9464.")
    ] = None,
) -> None:
    """Run the agent: it thinks, acts, is scored and learns, until Ctrl-C (or for --cycles)."""
    if cycles is not None and cycles < 1:
        raise UsageError(f"--cycles {cycles}: at least 1")
    settings = common.settings(
        {
            "workspace": str(workspace.expanduser().absolute()) if workspace is not None else None,
            "cycle": {"interval": interval},
            "mind": {
                "kind": mind or ("scripted" if script is not None else None),
                "script": str(script) if script is not None else None,
            },
            "seed": seed,
            "metrics": {"port": metrics_port},
        }
    )
    home = common.where()
    skipped = _skipped(without or ())
    with home.owned():
        configure(settings.log, home.logs / "run.log", process="run")
        running = Run(home, settings, cycles, [str(rule) for rule in rules or ()], skipped, as_json=common.json)
        try:
            asyncio.run(running.live(common))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None  # asked twice, or before anything was there to be ended in order


def _skipped(without: Sequence[str]) -> frozenset[str]:
    return frozenset(name.strip() for names in without for name in names.split(",") if name.strip())


class Run:
    """One run of one home."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        cycles: int | None,
        rules: Sequence[str],
        skipped: frozenset[str],
        *,
        as_json: bool,
    ) -> None:
        self._home, self._settings, self._cycles, self._rules = home, settings, cycles, rules
        self._skipped, self._json = skipped, as_json
        self._watched: list[Watched] = []
        self._children: list[ChildProcess] = []
        self._begun: dict[str, Any] | None = None
        """Of the agent's first start: the cycle to end before, and the decisions that there were already."""
        self._metrics: str | None = None
        self._found = Found()
        self._bus_address: dict[str, Any] = {}
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._stop = asyncio.Event()

    async def live(self, common: Common) -> None:
        """From the first process to the last. Raises ConchError with the exit code of what ended it."""
        own = asyncio.current_task()
        assert own is not None
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(name, self._asked_to_stop, own)
        agent = self._child("agent", "conch.cycle.process")
        consumers = self._child("consumers", "conch.consumer.process")
        server: EmbeddedServer | None = None
        tasks: list[asyncio.Task[Any]] = []
        try:
            await asyncio.gather(agent.begin(), consumers.begin())  # they import while the rest is made ready
            discovering = asyncio.create_task(asyncio.to_thread(self._discover))
            self._settings = _ready(self._home, self._settings, common)
            end_stale_sandboxes(self._workspace)
            if self._settings.bus.url is None:
                server = embedded_server(self._home, self._settings)
                watched = Watched("nats-server")
                self._watched.insert(0, watched)
                await server.start()
                watched.state, watched.pid = "up", server.pid
                tasks.append(asyncio.create_task(keep_server(server, watched, self._write_down), name="nats-server"))
            self._bus_address = {
                "url": server.url if server is not None else self._settings.bus.url,
                "token": server.token if server is not None else token_of(self._settings),
                "embedded": server is not None,
            }
            self._found = await discovering
            await self._with_bus(agent, consumers, tasks)
        finally:
            await ended([task for task in tasks if task.get_name() != "nats-server"], 0.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(child.gone() for child in self._children))
            end_stale_sandboxes(self._workspace)
            if server is not None:
                await server.stop()
            self._home.run_file.unlink(missing_ok=True)

    async def _with_bus(self, agent: ChildProcess, consumers: ChildProcess, tasks: list[asyncio.Task[Any]]) -> None:
        from conch.bus.access import Access
        from conch.bus.jetstream import JetStreamBus
        from conch.cli.common import stream_bytes

        embedded = self._bus_address["embedded"]
        async with JetStreamBus(
            Access(self._bus_address["url"], token=self._bus_address["token"]),
            name="conch-run",
            max_bytes=stream_bytes(self._settings) if embedded else -1,
            replicas=1 if embedded else self._settings.bus.replicas,
        ) as bus:
            await self._refuse_stranger(bus)
            beyond = await self._reconcile(bus)
            await self._set_weights(bus)
            self._introduce()
            end = (await bus.state()).last
            printing = asyncio.create_task(self._print(bus, end), name="conch.print")
            tasks.append(printing)
            start = asyncio.create_task
            scoring = start(consumers.live(self._consumers_spec), name="consumers")
            others = [
                start(child.live(self._plugin_spec(plugin)), name=plugin.name) for plugin, child in self._plugins()
            ]
            acting = start(agent.live(functools.partial(self._agent_spec, beyond)), name="agent")
            tasks += [scoring, *others, acting]
            await self._until_over(acting, {scoring, *others}, tasks)
            await self._wind_up(agent, acting, scoring, others)
            await asyncio.sleep(0)
            printing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await printing

    async def _until_over(
        self, acting: asyncio.Task[int], consuming: set[asyncio.Task[int]], tasks: Sequence[asyncio.Task[Any]]
    ) -> None:
        """Until the agent has ended, somebody asked to stop, or something cannot go on."""
        stopping = asyncio.create_task(self._stop.wait(), name="conch.stop")
        watching: set[asyncio.Task[Any]] = {*tasks, stopping}
        try:
            while True:
                done, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {acting, *consuming, stopping}:
                    task.result()  # the server that kept dying: raises
                if first_fatal(self._children[:2]) is not None or stopping in done:
                    return
                if acting in done and (acting.result() == 0 or self._cycles is not None):
                    return
                for task in done:
                    watching.discard(task)
                    self._say_down(task.get_name())
        finally:
            stopping.cancel()

    def _say_down(self, name: str) -> None:
        [child] = [child for child in self._children if child.watched.name == name]
        often = f"it died {DEATHS} times in a minute, see {self._home.logs}"
        self._warn(f"{name} stays down: {child.fatal[0] if child.fatal is not None else often}")

    async def _wind_up(
        self,
        agent: ChildProcess,
        acting: asyncio.Task[int],
        scoring: asyncio.Task[int],
        others: Sequence[asyncio.Task[int]],
    ) -> None:
        """The agent first, then whoever has handled what it did: plug-in consumers before the rest, so that what they
        say is still joined. Raises for what went wrong."""
        fatal = first_fatal(self._children[:2])
        agent.end()
        await ended([acting], self._settings.tools.timeout + 10.0)
        by_itself = fatal is None and not self._stop.is_set()
        whole = by_itself and self._cycles is not None
        patience = self._settings.rewards.deadline + FINISH_MARGIN if whole else STOP_SECONDS
        if fatal is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._finished(self._children[2:], others, interruptible=by_itself)
                    await self._finished(self._children[1:2], [scoring], interruptible=by_itself)
        unfinished = not scoring.done() or scoring.result() != 0
        for child in self._children[1:]:
            child.end()
        await ended([scoring, *others], GRACE_SECONDS)
        fatal = fatal or first_fatal(self._children[:2])
        if fatal is not None:
            raise fatal
        if whole and (acting.cancelled() or acting.result() != 0):
            raise ConchError(f"the agent died again and again: see {self._home.logs / 'agent.log'}")
        if whole and unfinished:
            raise ConchError(f"not every experience was recorded: see {self._home.logs / 'consumers.log'}")

    async def _finished(
        self, children: Sequence[ChildProcess], tasks: Sequence[asyncio.Task[int]], *, interruptible: bool
    ) -> None:
        """Until these have handled what there is, or somebody asks to stop."""
        for child in children:
            child.finish()
        stopping = asyncio.create_task(self._stop.wait(), name="conch.stop")
        waiting: set[asyncio.Task[Any]] = {*tasks}
        try:
            while waiting and not (interruptible and self._stop.is_set()):
                done, _ = await asyncio.wait(
                    {*waiting, stopping} if interruptible else waiting, return_when=asyncio.FIRST_COMPLETED
                )
                waiting -= done
        finally:
            stopping.cancel()

    # -- what the children are told ----------------------------------------------------------------------------------

    def _child(self, name: str, module: str) -> ChildProcess:
        watched = Watched(name)
        self._watched.append(watched)
        child = ChildProcess(watched, module, hear=self._hear, changed=self._write_down)
        self._children.append(child)
        return child

    def _plugins(self) -> list[tuple[Plugin, ChildProcess]]:
        """Plug-in consumers, each in a process of its own."""
        wanted = [plugin for plugin in self._found.of("consumer") if plugin.name not in self._skipped]
        return [(plugin, self._child(plugin.name, "conch.consumer.process")) for plugin in wanted]

    def _spec(self, **more: Any) -> dict[str, Any]:
        return {
            "settings": _plain(self._settings),
            "home": str(self._home.path),
            "bus": self._bus_address,
            **more,
        }

    async def _agent_spec(self, beyond: int) -> dict[str, Any]:
        workspace = str(self._workspace)
        return self._spec(cycles=self._cycles, begun=self._begun, beyond=beyond, workspace=workspace)

    @property
    def _workspace(self) -> Path:
        return Path(self._settings.workspace) if self._settings.workspace is not None else self._home.workspace

    async def _consumers_spec(self) -> dict[str, Any]:
        plugins = [asdict(rule) for rule in self._wanted_rules()]
        return self._spec(name="conch-consumers", builtin=self._wanted_builtin(), plugins=plugins, keeps=True)

    def _wanted_builtin(self) -> list[str]:
        return [name for name in builtin_names() if name not in self._skipped]

    def _wanted_rules(self) -> list[Plugin]:
        return [rule for rule in self._found.of("rule") if not {rule.name, f"rule-{rule.name}"} & self._skipped]

    def _plugin_spec(self, plugin: Plugin) -> Any:
        async def spec() -> dict[str, Any]:
            return self._spec(name=f"conch-{plugin.name}", builtin=[], plugins=[asdict(plugin)], keeps=False)

        return spec

    # -- before the first cycle --------------------------------------------------------------------------------------

    def _discover(self) -> Found:
        builtin = builtin_names()
        found = discover(self._rules, taken={*builtin, *BUILTIN_WEIGHTS})
        known = {*builtin, *(plugin.name for plugin in found.plugins)}
        known |= {f"rule-{plugin.name}" for plugin in found.of("rule")}
        for name in sorted(self._skipped - known):
            near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.0)
            raise UsageError(f"--without {name}: there is no such consumer; the nearest name is {near[0]}")
        return found

    async def _refuse_stranger(self, bus: Bus) -> None:
        """Before anything is said on a stream or read from it in this agent's name. Raises BusError."""
        from conch.cycle.recover import refuse_stranger
        from conch_schemas import PolicySet, decode, subject_filter

        agent = self._settings.agent
        if (first := await bus.last(subject_filter(PolicySet, agent))) is not None:
            refuse_stranger(agent, self._home.agentuid(agent), decode(first.data).agentuid)
        await self._claim(bus)

    async def _claim(self, bus: Bus) -> None:
        """One home's consumers read a stream: a second home's would take their places over. Raises BusError."""
        ours = [name for name in self._wanted_builtin() if name != "metrics"]
        own = self._home.agentuid(self._settings.agent)
        if not ours:
            return
        if (owner := await bus.get(OWNER_KEY)) is None:
            await bus.put(OWNER_KEY, own.encode(), revision=0)
        elif owner.value.decode(errors="replace") != own:
            raise BusError(
                f"the consumers of another home read the stream on {masked(self._bus_address['url'])}: "
                f"use another NATS account, or run only the agent here, --without {','.join(ours)}"
            )

    async def _reconcile(self, bus: Bus) -> int:
        """The number that the next cycle has at least; and what the stream lost, said."""
        from conch.bus.reconcile import reconcile
        from conch.experience import SqliteStore, store_path

        path = store_path(self._settings.store.url, self._home.path)
        if not path.exists():
            await reconcile(bus, 0, "")
            return 0
        store = await asyncio.to_thread(SqliteStore, path)
        try:
            last = store.last_cycle(self._settings.agent)
            found = await reconcile(bus, store.position(), store.epoch() or "")
            if found.sentence:
                self._warn(found.sentence)
            if not found.another and found.position < found.store_position:
                store.set_position(found.position)
        finally:
            await asyncio.to_thread(store.close)
        return last + 1 if last is not None else 0

    async def _set_weights(self, bus: Bus) -> None:
        """Say which parts an experience of this agent waits for, if that is news."""
        from conch.rewards import PluginPart, weight_set, weights_version
        from conch_schemas import WeightsSet, decode, encode, source_of, subject_filter, subject_of

        rewards, agent = self._settings.rewards, self._settings.agent
        added = [
            PluginPart(rule.name, rule.weight, (rule.low, rule.high), scorer=rule.name)
            for rule in self._found.of("rule")
        ]
        parts = weight_set(added, rewards)
        version = weights_version(parts)
        last = await bus.last(subject_filter(WeightsSet, agent))
        if last is not None:
            before = decode(last.data)
            if isinstance(before, WeightsSet) and before.version == version:
                return
        agentuid = self._home.agentuid(agent)
        event = WeightsSet(
            id=str(uuid5(UUID(agentuid), f"weights.set/{version}/{last.seq if last is not None else 0}")),
            source=source_of(agent, agentuid),
            agent=agent,
            version=version,
            parts=parts,
            why="conch run",
        )
        await bus.publish(subject_of(event), encode(event), id=event.id)

    # -- what is said ------------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        mind = self._settings.mind
        line = f"agent {self._settings.agent} · mind {mind.kind} · home {self._home.path} · workspace {self._workspace}"
        self._tell(line)
        for rule in self._found.of("rule"):
            self._tell(f"rule {rule.name} (asks for weight {rule.weight:g}) from {rule.origin}")
        for broken in self._found.broken:
            self._warn(f"set aside: {broken.origin}: {broken.why}")

    def _hear(self, watched: Watched, line: dict[str, Any]) -> None:
        """A line from a child."""
        if "decisions" in line:
            self._begun = line
        elif "metrics" in line:
            self._metrics = str(line["metrics"])
            moved = self._settings.metrics.port is None and f":{DEFAULT_METRICS_PORT}/" not in self._metrics
            note = f" (port {DEFAULT_METRICS_PORT} is taken)" if moved else ""
            self._tell(f"metrics {self._metrics}{note}")
            self._write_down()
        elif "state" in line and line.get("why"):
            self._warn(f"{self._settings.agent}: {line['state']}: {line['why']}")
        elif "consumer" in line:
            watched.why = str(line.get("down") or line.get("broke"))
            self._warn(f"consumer {line['consumer']} {'stays down' if 'down' in line else 'broke'}: {watched.why}")
            self._write_down()

    async def _print(self, bus: Bus, after: int) -> None:
        """A line for every experience when it is first recorded."""
        from conch.cli.line import cycle_line
        from conch.experience import cycle_row
        from conch_schemas import ExperienceRecorded, decode, subject_filter

        async with bus.follow([subject_filter(ExperienceRecorded, self._settings.agent)], after=after) as reader:
            while True:
                for delivery in await reader.get():
                    with contextlib.suppress(ValueError):
                        event = decode(delivery.data)
                        if isinstance(event, ExperienceRecorded) and event.revision == 1:
                            if self._json:
                                self._write(emit, cycle_row(event))
                            else:
                                self._write(say, cycle_line(event))

    def _tell(self, text: str) -> None:
        """A line about the run itself: beside the rows with --json."""
        self._write(warn if self._json else say, text)

    def _warn(self, text: str) -> None:
        self._write(warn, text)

    def _write(self, write: Callable[[Any], None], what: Any) -> None:
        """Whoever read us may have gone (`conch run | head`): then the run ends in order."""
        try:
            write(what)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2 if write is warn else 1)
            os.close(nowhere)
            if write is not warn:
                self._stop.set()

    def _write_down(self) -> None:
        """What `conch status` and the other commands read."""
        from conch.experience import store_path

        state = {
            "pid": os.getpid(),
            "agent": self._settings.agent,
            "started": self._started,
            "bus": self._bus_address,
            "metrics": self._metrics,
            "store": str(store_path(self._settings.store.url, self._home.path)),
            "workspace": str(self._workspace),
            "processes": [
                {"name": one.name, "pid": one.pid, "state": one.state, "restarts": one.restarts, "why": one.why}
                for one in self._watched
            ],
            "consumers": [*self._wanted_builtin(), *(f"rule-{rule.name}" for rule in self._wanted_rules())]
            + [plugin.name for plugin in self._found.of("consumer") if plugin.name not in self._skipped],
            "rules": [
                {"name": rule.name, "weight": rule.weight, "version": rule.version, "origin": rule.origin}
                for rule in self._found.of("rule")
            ],
            "set_aside": [{"origin": broken.origin, "why": broken.why} for broken in self._found.broken],
        }
        with contextlib.suppress(OSError):  # a full disk: the run goes on, status is stale
            write_whole(self._home.run_file, json.dumps(state))

    def _asked_to_stop(self, run: asyncio.Task[Any]) -> None:
        """The first time in order, the second time at once: what is in hand is finished by the next run."""
        if self._stop.is_set():
            run.cancel()
        self._stop.set()


def _ready(home: Home, settings: Settings, common: Common) -> Settings:
    """Make the home where there is none, and the workspace. The settings as they are then."""
    from conch.cli.init import make_home

    place = Path(settings.workspace) if settings.workspace is not None else home.workspace
    if home.path.resolve().is_relative_to(place.resolve()):
        raise UsageError(
            f"the workspace {place} holds the home {home.path}, whose token and store the agent must not see: "
            "name another --workspace"
        )
    if not home.config_file.exists() and common.config is None:
        make_home(home, Path(settings.workspace) if settings.workspace is not None else None)
        goals = common.settings().goals
        settings = settings.model_copy(update={"goals": goals})
    try:
        made = not place.exists()
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the workspace {place} cannot be used ({error.strerror}): name another --workspace"
        ) from error
    if made:
        warn(f"made the workspace {place}")
    return settings


def _plain(settings: Settings) -> dict[str, Any]:
    """The settings with their secrets, for the children's ears only."""
    plain = settings.model_dump(mode="json")
    for section, key in (("bus", "token"), ("mind", "api_key")):
        secret = getattr(getattr(settings, section), key)
        plain[section][key] = secret.get_secret_value() if secret is not None else None
    return plain

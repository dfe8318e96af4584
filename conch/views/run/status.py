"""The view of a home's state: processes, agents, rules, alarms, bus and store, for `conch status --json` and the
pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, TypedDict

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer
from pydantic.json_schema import JsonSchemaValue

from conch.auth import LoginTokens
from conch.bus import Bus
from conch.config import Settings
from conch.consumer.group import signs, standings
from conch.consumer.operations import look, watched
from conch.consumer.plugins import builtin_names, row_of, rules_of
from conch.consumer.runtime import open_dead_letters
from conch.disk import disk_use
from conch.errors import BusError
from conch.experience import ComponentStats, CostSummary, ExperienceReader, ExperienceSummary, store_location
from conch.home import Home
from conch.requests import acknowledged, ask, ask_all
from conch.run_info import RunInfo
from conch.tasks import concurrently
from conch.views.base import View
from conch.views.life.goal_pace import GoalPaceShown
from conch.views.life.sampled import life_evidence
from conch.views.life.verdict import VerdictKind, life_verdict
from conch.views.rewards.alarms import AlarmRow, alarm_rows
from conch.views.rewards.components import SetAside
from conch.views.run.consumers import Lag
from conch.views.training.lineage import read_lineage
from conch.views.training.lineage_line import LineageLine, lineage_line
from conch_schemas import JsonObject, control_subject

LAST = 100
"""Cycles that the figures are over."""
BUS_SECONDS = 4.0
"""Time for the bus to answer all that is asked here."""
SHOWN_AGENTS = 10
"""Agents that are shown of several; those that wait for something before the others."""
WATCHED_AGENTS = 200
"""Agents that alarms are asked for, at most."""
WAITS = "waits for its program"
"""The state of an agent whose program does not act now."""


class ProcessRow(View):
    """A process of the run."""

    name: str
    pid: int | None
    """None: it does not run now."""
    state: str
    """up, down or what lies between."""
    restarts: int
    why: str
    """What is wrong with it; empty: nothing."""


class RuleRow(View):
    """A rule of the run, as it declares itself."""

    model_config = ConfigDict(extra="ignore")  # written by the run's process, which may know more of it

    kind: Literal["rule"]
    name: str
    origin: str
    """Its file, or `group:entry point`."""
    version: str
    weight: float
    """The weight that it asks for."""
    low: float
    """The least score."""
    high: float
    timeout: float | None
    """Seconds; None: the settings'."""
    doc: str
    emits: tuple[str, ...] = ()
    held_out: bool
    """Never paid, never trained on."""
    stateful: bool
    window: int | None
    """Acts that it is given at most; None: the one to be scored."""
    text: None


class StatusGoal(View):
    """An active goal of a running agent."""

    id: str
    statement: str
    best: float | None
    """The best that its check has measured, 0..1."""


class StatusQuestion(View):
    """A question to its mind that an agent waits for."""

    phase: str
    """think, decide or reflect."""
    seconds: float
    """Since it was asked."""
    tokens: int
    """Tokens of the reply so far, by an estimate."""


class StatusBudget(View):
    """A limit of an agent's budget."""

    budget: str
    """The setting below `budget`, such as `tokens_per_hour`."""
    limit: float
    used: float
    """Used within the window, reservations included."""


class StatusApproval(View):
    """An act that waits for a person's approval."""

    id: str
    """By which `conch approve` names it."""
    act: str
    """Tool and operation."""
    until: str
    """When it is denied, ISO 8601, UTC."""
    why: str
    """The rule that asks, in a sentence."""


class StatusTeam(View):
    """The team that an agent is."""

    topology: str
    epoch: int
    step: int
    """The number of the step in progress, from 0."""
    turn: str
    """The role that has the turn."""
    tokens: int
    """Output tokens of all roles."""


class AgentStatus(View):
    """The state of an agent. For an agent that is not running, and for one among several, fields are left out of the
    JSON."""

    model_config = ConfigDict(extra="ignore")  # replied by the agent's process, which may know more

    agent: str
    state: str
    """`not running`, `not answering`, or what the agent reports."""
    why: str
    cycle: int | None = None
    """Number of its last cycle; left out where it does not run."""
    needs: dict[str, float] = Field(default_factory=dict)
    """Satisfaction by need, 0..1; like the rest only of an agent alone that runs."""
    goals: tuple[StatusGoal, ...] = ()
    waiting: tuple[str, ...] = ()
    """Messages that it has not read yet, cut."""
    waiting_count: int = 0
    tokens_in_hour: int = 0
    """Tokens used in the last hour."""
    budget: tuple[StatusBudget, ...] = ()
    """The limits of its budget; left out where none is set."""
    until: str | None = None
    """When it goes on, ISO 8601, UTC; left out where it does not wait at a limit that will have room."""
    policy: str | None = None
    """Digest of the acting policy."""
    mind: str | None = None
    """Kind and model of the mind that decides: of several, of the one that replied last."""
    asks: StatusQuestion | None = None
    """The question that it waits for; left out before it has been open for 2 s."""
    approval: StatusApproval | None = None
    """The act that waits for a person's approval; left out where none does."""
    team: StatusTeam | None = None
    """The team that it is; left out of an agent alone."""
    last_cycle: int | None = None
    """From the store, like `mean`; left out without one."""
    mean: float | None = None
    """Mean total of its last 100 cycles."""

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: SerializerFunctionWrapHandler) -> JsonObject:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        shown = handler.resolve_ref_schema(handler({**core, "serialization": None}))
        shown["required"] = ["agent", "state", "why"]
        return shown


class StreamFigures(View):
    """The stream in a few figures."""

    first: int
    """Sequence of the first event that is kept."""
    last: int
    messages: int
    """Events that are kept."""
    bytes: int


class DiskFigures(View):
    """The disk of the home."""

    used: int
    """Bytes, like `free`."""
    free: int
    share: float
    """Used, 0..1."""
    warning: str
    """What to do; empty: nothing."""


class StatusVerdict(View):
    """Whether an agent gets better, in words."""

    kind: VerdictKind
    headline: str
    """One sentence."""
    details: tuple[str, ...]
    """Further sentences, with the figures."""
    pace: GoalPaceShown | None = None
    """Acts for a goal; None: there were no goals, or too few acts."""


class StoreFigures(View):
    """The experience store in a few figures."""

    bytes: int
    removed: int
    """Acts that store.keep removed."""
    came_late: int
    """Events that came for removed acts."""


class Status(View):
    """The state of the home, as `conch status --json` prints it."""

    schema_: Literal["conch.v1.status"] = Field(default="conch.v1.status", alias="schema")
    home: str
    written_by: str = ""
    """The version of Conch that last ran in the home; empty where it is not known."""
    running: bool
    pid: int | None
    started: str | None
    workspace: str
    metrics: str | None
    """Address of /metrics of the run."""
    ui: str | None
    """Address of the dashboard."""
    processes: tuple[ProcessRow, ...]
    rules: tuple[RuleRow, ...]
    set_aside: tuple[SetAside, ...]
    agent: AgentStatus | None
    """None where there are several."""
    agents: tuple[AgentStatus, ...]
    """At most 10 of several."""
    states: dict[str, int]
    """How many of several agents are in each state."""
    bus_error: str | None
    """Why the bus could not be asked; then what it knows is None or empty."""
    stream: StreamFigures | None
    consumers: tuple[Lag, ...] | None
    held: tuple[str, ...]
    """Sentences on what holds up the trimming of the stream."""
    left_over: tuple[str, ...]
    """Consumers that lag and are not configured any more."""
    dead_letters: int | None
    alarms: tuple[AlarmRow, ...] | None
    disk: DiskFigures | None
    store: StoreFigures | None
    """None: there is no store, and so none of what follows."""
    figures: ExperienceSummary | None
    """Over the last 100 cycles."""
    cost: CostSummary | None
    """Of the last 100 cycles."""
    components: tuple[ComponentStats, ...]
    last_cycle: int | None
    unscored: int
    """Acts that wait for scores."""
    needs: dict[str, float]
    """Satisfaction by need, 0..1, by the store."""
    lineage: LineageLine | None
    """Of the agent's adapters; None where nothing was trained, and of several agents."""
    verdict: StatusVerdict | None = None
    """Whether it gets better, as the page Story says it; None of several agents, and without any cycle."""


class StoreAnswer(TypedDict):
    """What the store knows of a `Status`; the fields are those of it."""

    store: StoreFigures | None
    figures: ExperienceSummary | None
    cost: CostSummary | None
    components: tuple[ComponentStats, ...]
    last_cycle: int | None
    unscored: int
    needs: dict[str, float]
    lineage: LineageLine | None
    verdict: StatusVerdict | None


_NO_STORE: Final = StoreAnswer(
    store=None,
    figures=None,
    cost=None,
    components=(),
    last_cycle=None,
    unscored=0,
    needs={},
    lineage=None,
    verdict=None,
)


async def gather(
    home: Home,
    settings: Settings,
    names: Sequence[str],
    bus: Callable[[], AbstractAsyncContextManager[Bus]],
    read: Callable[[Callable[[ExperienceReader], StoreAnswer]], Awaitable[StoreAnswer]],
) -> Status:
    """The status of these agents. What cannot be read is None, and `bus_error` is the reason. `bus` connects to the bus
    of the run in progress, `read` reads the store where there is one."""
    run = home.running()
    silent = _silent(run)
    found: JsonObject = {
        "home": str(home.path),
        "written_by": home.read_writer(),
        "running": run is not None,
        "pid": run.pid if run else None,
        "started": run.started if run else None,
        "workspace": (run.workspace if run else None) or settings.workspace or str(home.workspace),
        "metrics": run.metrics if run else None,
        "ui": (run.ui if run else None) or LoginTokens(home).shown(),
        "processes": [one.model_dump() for one in run.processes] if run else [],
        "rules": [row_of(one) for one in rules_of(run.rules)] if run else [],
        "set_aside": [one.model_dump() for one in run.set_aside] if run else [],
        **_of_agents([{"agent": name, "state": silent, "why": ""} for name in names], {silent: len(names)}),
        "bus_error": None,
        "stream": None,
        "consumers": None,
        "held": [],
        "left_over": [],
        "dead_letters": None,
        "alarms": None,
        "disk": await asyncio.to_thread(_disk, home),
        "store": None,
    }
    if run is not None:
        try:
            async with asyncio.timeout(BUS_SECONDS), bus() as reached:
                found |= await _of_bus(reached, home, settings, names, run)
        except (BusError, TimeoutError) as error:
            found["bus_error"] = str(error) or f"no answer from {run.bus.url} within {BUS_SECONDS:g} s"
    if not await asyncio.to_thread(store_location(settings.store.url, home.path).exists):
        return Status.model_validate(found | _NO_STORE)
    habit = _habit(found["alarms"])
    return Status.model_validate(found | await read(lambda store: _of_store(store, names, found["agents"], habit)))


def _habit(alarms: Sequence[AlarmRow] | None) -> bool | None:
    """Whether the alarm of a habit is on; None: that is not known."""
    return None if alarms is None else any(one.alarm == "falling_entropy" for one in alarms)


def _silent(run: RunInfo | None) -> str:
    """The state of an agent that does not answer."""
    if run is None:
        return "not running"
    return "not answering" if run.has_agent else WAITS


def _disk(home: Home) -> DiskFigures | None:
    """How full the disk of the home is, and what to do about it where that is too much."""
    try:
        use = disk_use(home.path)
    except OSError:
        return None
    return DiskFigures(used=use.used, free=use.free, share=use.share, warning=use.warning)


def _of_agents(rows: Sequence[JsonObject], states: Mapping[str, int]) -> JsonObject:
    """`agent` where there is one, `agents` and how many are in each state where there are several."""
    if len(rows) == 1:
        return {"agent": rows[0], "agents": [], "states": {}}
    return {"agent": None, "agents": list(rows[:SHOWN_AGENTS]), "states": dict(states)}


async def _of_programs(bus: Bus, names: Sequence[str]) -> JsonObject:
    """The agents of several programs, each of which answers for itself."""

    async def row(name: str) -> JsonObject:
        try:
            return await ask(bus, control_subject(name, "status"), {}, timeout=1.0)
        except BusError:
            return {"agent": name, "state": WAITS, "why": ""}

    rows = await concurrently(row, names[:SHOWN_AGENTS])
    shown = [{key: one.get(key) for key in ("agent", "state", "why", "cycle")} for one in rows]
    return _of_agents(shown, Counter(str(one["state"]) for one in rows))


async def _of_bus(bus: Bus, home: Home, settings: Settings, names: Sequence[str], run: RunInfo) -> JsonObject:
    stream = await bus.state()
    consumers = [Lag(name=one.name, lag=one.lag) for one in await standings(bus)]
    held = [one.sentence for one in (await look(bus, settings.bus.keep)).held]
    letters = len([1 async for _ in open_dead_letters(bus)])
    states = await watched(bus, names[:WATCHED_AGENTS])
    answer: JsonObject = {}
    with contextlib.suppress(BusError):
        if len(names) > 1 and not run.has_agent:
            answer = await _of_programs(bus, names)
        elif len(names) > 1:
            answer = await ask_all(bus, names, "status", {}, timeout=1.0)
            answer = _of_agents(answer["agents"], answer["states"])
        else:
            answer = await ask(bus, control_subject(names[0], "status"), {}, timeout=1.0)
            answer = {"agent": {key: value for key, value in answer.items() if key != "ok"}}
    return {
        **answer,
        "stream": StreamFigures(first=stream.first, last=stream.last, messages=stream.messages, bytes=stream.bytes),
        "consumers": consumers,
        "held": held,
        "left_over": await _left_over(bus, settings, run.consumers, consumers),
        "dead_letters": letters,
        "alarms": alarm_rows(states, settings, await asyncio.to_thread(acknowledged, home)),
    }


async def _left_over(bus: Bus, settings: Settings, running: Sequence[str], consumers: Sequence[Lag]) -> list[str]:
    """Judges and rules that lag, and are neither in the settings, nor in the run, nor at work beside it."""
    known = {*builtin_names(settings), *running}
    lagging = [one.name for one in consumers if one.lag and one.name.startswith(("judge-", "rule-"))]
    return [name for name in lagging if name not in known and not await signs(bus, name)]


def _of_store(
    store: ExperienceReader, names: Sequence[str], rows: Sequence[JsonObject], habit: bool | None
) -> StoreAnswer:
    """The store's figures of one agent, else of all together, with each row's own figures added to it."""
    agent = names[0] if len(names) == 1 else None
    needs = store.charts.needs_history(agent, 1) if agent is not None else ()
    for row in rows:
        row |= {
            "last_cycle": store.cycles.last_cycle(row["agent"]),
            "mean": store.charts.figures(row["agent"], LAST).mean_total,
        }
    removals = [removal for name in names for removal in store.retention.removals(name)]
    return {
        "store": StoreFigures(
            bytes=store.retention.bytes_used(),
            removed=sum(removal.acts for removal in removals),
            came_late=store.retention.came_late(),
        ),
        "figures": store.charts.figures(agent, LAST),
        "cost": store.charts.costs(agent, LAST),
        "components": tuple(store.charts.component_stats(agent, LAST)),
        "last_cycle": store.cycles.last_cycle(agent) if agent is not None else None,
        "unscored": store.cycles.pending(agent),
        "needs": needs[-1].after if needs else {},
        "lineage": None if agent is None else lineage_line(read_lineage(store, agent)),
        "verdict": None if agent is None else _verdict(store, agent, habit),
    }


def _verdict(store: ExperienceReader, agent: str, habit: bool | None) -> StatusVerdict | None:
    found = life_evidence(store, agent, moved=store.charts.goal_moves(agent, 1)[0])
    said = life_verdict(found, habit=habit)
    if not found.acts:
        return None
    pace = GoalPaceShown.of(said.pace)
    return StatusVerdict(kind=said.kind, headline=said.headline, details=said.details, pace=pace)

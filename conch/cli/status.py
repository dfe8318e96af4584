"""`conch status`: how it goes, on one screen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from conch.cli.common import Common, ask, emit, open_bus, open_store, say
from conch.cli.facts import agent_named, names_in
from conch.cli.options import COMMON, AgentName
from conch.errors import BusError
from conch.text import safe_text
from conch.views.line import signed
from conch_schemas import control_subject

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.config import Settings
    from conch.home import Home
    from conch.rewards.watch import Active

LAST = 100
"""Cycles that the figures are over."""
BUS_SECONDS = 4.0
"""Time for the bus to answer all that is asked here."""
SHOWN_AGENTS = 10
"""Of several; those that wait for something before the others."""
WATCHED_AGENTS = 200
"""Whose alarms are asked for."""
SHOWN = 5
"""Goals, whys and plug-ins of each kind that fit one screen."""
INCOMPLETE = "incomplete (a part has not come in its time)"
WIDTH = 64
"""Characters of a free text."""


async def status(*, agent: AgentName = None, common: Common = COMMON) -> None:
    """Processes, the agent, its rewards, needs and goals, and how far the consumers are. Without a run: the store's.

    Of several agents a table; --agent shows one of them.
    """
    home, settings = common.existing(), common.settings()
    found = await gather(home, settings, _who(home, settings, agent))
    if common.json:
        emit({"schema": "conch.v1.status"} | found)
    else:
        say("\n".join(screen(found)))


def _who(home: Home, settings: Settings, named: str | None) -> list[str]:
    """The agents that are meant: of the run, else of the settings where it has acted, else of the store."""
    from conch.experience import store_path

    if named is not None or home.running() is not None:
        return names_in(home, settings) if named is None else [agent_named(home, settings, named)]
    if not store_path(settings.store.url, home.path).exists():
        return [settings.agent]
    store = open_store(home, settings)
    try:
        there = store.agents()
    finally:
        store.close()
    return [settings.agent] if settings.agent in there or not there else list(there)


async def gather(home: Home, settings: Settings, names: Sequence[str]) -> dict[str, Any]:
    """Everything that the screen shows of these agents, as JSON values. What cannot be asked is None and `bus_error`
    says why."""
    run = home.running()
    silent = "not answering" if run else "not running"
    found: dict[str, Any] = {
        "home": str(home.path),
        "running": run is not None,
        "pid": run["pid"] if run else None,
        "started": run["started"] if run else None,
        "workspace": run["workspace"] if run else settings.workspace or str(home.workspace),
        "metrics": run["metrics"] if run else None,
        "processes": run["processes"] if run else [],
        "rules": run["rules"] if run else [],
        "set_aside": run["set_aside"] if run else [],
        **_of_agents([{"agent": name, "state": silent, "why": ""} for name in names], {silent: len(names)}),
        "bus_error": None,
        "stream": None,
        "consumers": None,
        "held": [],
        "left_over": [],
        "dead_letters": None,
        "alarms": None,
    }
    if run is not None:
        try:
            async with asyncio.timeout(BUS_SECONDS), open_bus(home, settings) as bus:
                found |= await _of_bus(bus, settings, names, run["consumers"])
        except (BusError, TimeoutError) as error:
            found["bus_error"] = str(error) or f"no answer from {run['bus']['url']} within {BUS_SECONDS:g} s"
    return found | _of_store(home, settings, names, found["agents"])


def _of_agents(rows: Sequence[dict[str, Any]], states: Mapping[str, int]) -> dict[str, Any]:
    """`agent` where there is one, `agents` and how many are in each state where there are several."""
    if len(rows) == 1:
        return {"agent": rows[0], "agents": [], "states": {}}
    return {"agent": None, "agents": list(rows[:SHOWN_AGENTS]), "states": dict(states)}


async def _of_bus(bus: Bus, settings: Settings, names: Sequence[str], running: Sequence[str]) -> dict[str, Any]:
    from conch.consumer.alarms import watched
    from conch.consumer.letters import open_letters
    from conch.consumer.retention import look
    from conch.consumer.standing import standings

    stream = await bus.state()
    consumers = [{"name": one.name, "lag": one.lag} for one in await standings(bus)]
    held = [one.sentence for one in (await look(bus, settings.bus.keep)).held]
    letters = len([1 async for _ in open_letters(bus)])
    states = await watched(bus, names[:WATCHED_AGENTS])
    answer: dict[str, Any] = {}
    with contextlib.suppress(BusError):
        answer = await ask(bus, control_subject(names[0], "status"), {"all": len(names) > 1}, timeout=1.0)
        answer.pop("ok")
        answer = _of_agents(answer["agents"], answer["states"]) if len(names) > 1 else {"agent": answer}
    return {
        **answer,
        "stream": {"first": stream.first, "last": stream.last, "messages": stream.messages, "bytes": stream.bytes},
        "consumers": consumers,
        "held": held,
        "left_over": await _left_over(bus, settings, running, consumers),
        "dead_letters": letters,
        "alarms": [_alarm(agent, active) for agent, state in states.items() for active in state.active],
    }


async def _left_over(
    bus: Bus, settings: Settings, running: Sequence[str], consumers: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Judges and rules that lag, and are neither in the settings, nor in the run, nor at work beside it."""
    from conch.consumer.discover import builtin_names
    from conch.consumer.members import signs

    known = {*builtin_names(settings), *running}
    lagging = [one["name"] for one in consumers if one["lag"] and one["name"].startswith(("judge-", "rule-"))]
    return [name for name in lagging if name not in known and not await signs(bus, name)]


def _alarm(agent: str, active: Active) -> dict[str, Any]:
    return {
        "agent": agent,
        "alarm": active.alarm,
        "component": active.component,
        "since": active.cycle,
        "value": active.value,
        "threshold": active.threshold,
        "what": active.what,
    }


def _of_store(home: Home, settings: Settings, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of one agent, else of all together, with each row's own figures added to it."""
    from conch.experience import store_path

    if not store_path(settings.store.url, home.path).exists():
        return {"figures": None, "components": [], "last_cycle": None, "unscored": 0, "needs": {}}
    store = open_store(home, settings)
    agent = names[0] if len(names) == 1 else None
    try:
        needs = store.needs_history(agent, 1) if agent is not None else ()
        for row in rows:
            row |= {"last_cycle": store.last_cycle(row["agent"]), "mean": store.figures(row["agent"], LAST).mean_total}
        return {
            "figures": asdict(store.figures(agent, LAST)),
            "components": [asdict(one) for one in store.component_stats(agent, LAST)],
            "last_cycle": store.last_cycle(agent) if agent is not None else None,
            "unscored": store.pending(agent),
            "needs": needs[-1].after if needs else {},
        }
    finally:
        store.close()


def screen(found: Mapping[str, Any]) -> Iterator[str]:
    """The status for a person, at most some 30 lines. Free text is cut; print it with `say`."""
    run = f"run in progress since {found['started']} (process {found['pid']})"
    yield f"home         {found['home']}: {run if found['running'] else 'no run in progress'}"
    agent = found["agent"] or {}
    yield from _agent(agent, found["last_cycle"]) if agent else _agents(found)
    yield from _processes(found)
    yield from _rewards(found)
    needs = agent.get("needs") or found["needs"]
    if needs:
        yield "needs        " + "  ".join(f"{_short(need)} {level:.2f}" for need, level in needs.items())
    yield from _goals(agent.get("goals") or ())
    yield from _stream(found)
    if found["metrics"]:
        yield f"metrics      {found['metrics']}"


def _agent(agent: Mapping[str, Any], last: int | None) -> Iterator[str]:
    tokens = f", {agent['tokens_in_hour']} tokens in the last hour" if agent.get("tokens_in_hour") else ""
    yield f"agent        {agent['agent']} {agent['state']}{_why(agent)}, {_last(last)}{tokens}"


def _agents(found: Mapping[str, Any]) -> Iterator[str]:
    states, rows = found["states"], found["agents"]
    total = sum(states.values())
    yield f"agents       {total}: " + ", ".join(f"{count} {state}" for state, count in states.items())
    for row in rows:
        mean = "" if row.get("mean") is None else f", mean total {signed(row['mean'])}"
        yield f"             {row['agent']} {row['state']}{_why(row)}, {_last(row.get('last_cycle'))}{mean}"
    if total > len(rows):
        yield f"             and {total - len(rows)} more: --agent NAME shows one"


def _why(agent: Mapping[str, Any]) -> str:
    return f": {_short(agent['why'])}" if agent.get("why") else ""


def _last(cycle: int | None) -> str:
    return "no cycle yet" if cycle is None else f"last cycle {cycle}"


def _processes(found: Mapping[str, Any]) -> Iterator[str]:
    processes = found["processes"]
    if processes:
        yield "processes    " + "  ".join(_process(one) for one in processes)
    yield from (f"             {one['name']}: {_short(one['why'])}" for one in processes if one["why"])
    yield from (f"set aside    {_short(one['origin'])}: {_short(one['why'])}" for one in found["set_aside"][:SHOWN])


def _process(one: Mapping[str, Any]) -> str:
    again = f" ({one['restarts']} restarts)" if one["restarts"] else ""
    return f"{_short(one['name'])} {one['state']}{again}"


def _rewards(found: Mapping[str, Any]) -> Iterator[str]:
    figures = found["figures"]
    if not figures or not figures["count"]:
        yield "rewards      no experience yet"
        return
    late = "".join(
        f", {n} {what}" for n, what in ((figures["incomplete"], INCOMPLETE), (found["unscored"], "unscored")) if n
    )
    yield (
        f"rewards      mean total {signed(figures['mean_total'])} of the last {figures['count']} cycles, "
        f"coverage {figures['coverage']:.2f}{late}"
    )
    paid = [one for one in found["components"] if one["weight"] > 0 and one["mean"] is not None]
    yield "  mean       " + "  ".join(f"{_short(one['component'])} {signed(one['mean'], 2)}" for one in paid)
    yield "  outcomes   " + "  ".join(f"{outcome} {count}" for outcome, count in figures["outcomes"].items())
    yield from _alarms(found["alarms"] or ())


def _alarms(alarms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in alarms[:SHOWN]:
        yield f"  alarm      {one['agent']} since cycle {one['since']}: {safe_text(one['what'], one_line=True)}"
    if len(alarms) > SHOWN:
        yield f"             and {len(alarms) - SHOWN} more: conch status --json"


def _goals(goals: Any) -> Iterator[str]:
    for place, goal in enumerate(goals[:SHOWN]):
        best = "  - " if goal["best"] is None else f"{goal['best']:.2f}"
        yield f"{'goals' if place == 0 else '':<12} {best}  {_short(goal['id'])}: {_short(goal['statement'])}"
    if len(goals) > SHOWN:
        yield f"             and {len(goals) - SHOWN} more: conch goal list"


def _stream(found: Mapping[str, Any]) -> Iterator[str]:
    if found["bus_error"]:
        yield f"bus          {_short(found['bus_error'])}"
    if found["stream"]:
        stream = found["stream"]
        yield f"bus          {stream['messages']} events, {stream['bytes'] / 2**20:.1f} MiB"
    if found["consumers"]:
        yield "  lag        " + "  ".join(f"{_short(one['name'])} {one['lag']}" for one in found["consumers"])
    for name in map(_short, found["left_over"][:SHOWN]):
        yield f"  left over  {name} is not configured any more: if it is gone for good, conch consumer forget {name}"
    yield from (f"  trimming   {safe_text(sentence, one_line=True)}" for sentence in found["held"][:SHOWN])
    if found["dead_letters"]:
        yield f"  letters    {found['dead_letters']} dead letters: conch dlq list"


def _short(text: str) -> str:
    flat = safe_text(str(text), one_line=True)
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 1] + "…"

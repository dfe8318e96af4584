"""How it goes, as `conch status --json` and the pages show it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import Any

from conch.auth import LoginTokens
from conch.bus import Bus
from conch.config import Settings
from conch.consumer.group.lag import standings
from conch.consumer.group.membership import signs
from conch.consumer.operations.alarms import watched
from conch.consumer.operations.retention import look
from conch.consumer.plugins.discover import builtin_names
from conch.consumer.runtime.dead_letters import open_dead_letters
from conch.disk import disk_use
from conch.errors import BusError
from conch.experience import ExperienceReader, store_path
from conch.home import Home
from conch.requests.ask import ask
from conch.rewards.watch import ActiveAlarm
from conch_schemas import control_subject

LAST = 100
"""Cycles that the figures are over."""
BUS_SECONDS = 4.0
"""Time for the bus to answer all that is asked here."""
SHOWN_AGENTS = 10
"""Of several; those that wait for something before the others."""
WATCHED_AGENTS = 200
"""Whose alarms are asked for."""


async def gather(
    home: Home,
    settings: Settings,
    names: Sequence[str],
    bus: Callable[[], AbstractAsyncContextManager[Bus]],
    read: Callable[[Callable[[ExperienceReader], dict[str, Any]]], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """`conch.v1.status`: everything that is shown of these agents. What cannot be asked is None and `bus_error` says
    why. `bus` reaches the bus of the run in progress, `read` looks into the store where there is one."""
    run = home.running()
    silent = "not answering" if run else "not running"
    found: dict[str, Any] = {
        "schema": "conch.v1.status",
        "home": str(home.path),
        "running": run is not None,
        "pid": run["pid"] if run else None,
        "started": run["started"] if run else None,
        "workspace": run["workspace"] if run else settings.workspace or str(home.workspace),
        "metrics": run["metrics"] if run else None,
        "ui": (run.get("ui") if run else None) or LoginTokens(home).shown(),
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
        "disk": await asyncio.to_thread(_disk, home),
        "store": None,
    }
    if run is not None:
        try:
            async with asyncio.timeout(BUS_SECONDS), bus() as reached:
                found |= await _of_bus(reached, settings, names, run["consumers"])
        except (BusError, TimeoutError) as error:
            found["bus_error"] = str(error) or f"no answer from {run['bus']['url']} within {BUS_SECONDS:g} s"
    if not store_path(settings.store.url, home.path).exists():
        return found | {"figures": None, "components": [], "last_cycle": None, "unscored": 0, "needs": {}}
    return found | await read(lambda store: _of_store(store, names, found["agents"]))


def _disk(home: Home) -> dict[str, Any] | None:
    """How full the disk of the home is, and what to do about it where that is too much."""
    try:
        use = disk_use(home.path)
    except OSError:
        return None
    return {"used": use.used, "free": use.free, "share": use.share, "warning": use.warning}


def _of_agents(rows: Sequence[dict[str, Any]], states: Mapping[str, int]) -> dict[str, Any]:
    """`agent` where there is one, `agents` and how many are in each state where there are several."""
    if len(rows) == 1:
        return {"agent": rows[0], "agents": [], "states": {}}
    return {"agent": None, "agents": list(rows[:SHOWN_AGENTS]), "states": dict(states)}


async def _of_bus(bus: Bus, settings: Settings, names: Sequence[str], running: Sequence[str]) -> dict[str, Any]:
    stream = await bus.state()
    consumers = [{"name": one.name, "lag": one.lag} for one in await standings(bus)]
    held = [one.sentence for one in (await look(bus, settings.bus.keep)).held]
    letters = len([1 async for _ in open_dead_letters(bus)])
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
    known = {*builtin_names(settings), *running}
    lagging = [one["name"] for one in consumers if one["lag"] and one["name"].startswith(("judge-", "rule-"))]
    return [name for name in lagging if name not in known and not await signs(bus, name)]


def _alarm(agent: str, active: ActiveAlarm) -> dict[str, Any]:
    return {
        "agent": agent,
        "alarm": active.alarm,
        "component": active.component,
        "since": active.cycle,
        "value": active.value,
        "threshold": active.threshold,
        "what": active.what,
    }


def _of_store(store: ExperienceReader, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of one agent, else of all together, with each row's own figures added to it."""
    agent = names[0] if len(names) == 1 else None
    needs = store.charts.needs_history(agent, 1) if agent is not None else ()
    for row in rows:
        row |= {
            "last_cycle": store.cycles.last_cycle(row["agent"]),
            "mean": store.charts.figures(row["agent"], LAST).mean_total,
        }
    removals = [removal for name in names for removal in store.retention.removals(name)]
    return {
        "store": {
            "bytes": store.retention.bytes_used(),
            "removed": sum(removal.acts for removal in removals),
            "came_late": store.retention.came_late(),
        },
        "figures": asdict(store.charts.figures(agent, LAST)),
        "components": [asdict(one) for one in store.charts.component_stats(agent, LAST)],
        "last_cycle": store.cycles.last_cycle(agent) if agent is not None else None,
        "unscored": store.cycles.pending(agent),
        "needs": needs[-1].after if needs else {},
    }

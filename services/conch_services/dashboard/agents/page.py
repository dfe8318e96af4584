"""`/agents`: every agent of the home, 50 a page: found by name, sorted by what it earns, by its cycle or its alarms."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.tasks import concurrently
from conch.views import AlarmRow
from conch_services.dashboard.agents.figures import NOTHING_MORE, AgentBrief, AgentMore, briefs, more_of
from conch_services.dashboard.alarms.now import alarms_now
from conch_services.dashboard.api.asked import known_agents
from conch_services.dashboard.asking import QueryResult, asked, kept
from conch_services.dashboard.page import page
from conch_services.dashboard.pages.state import AgentState, state_of
from conch_services.dashboard.world import DashboardContext

ROWS: Final = 50
"""Agents of a page."""
FRESH_SECONDS: Final = 5.0
"""Seconds for which the figures of all agents are not read again, for all open pages."""
SORTS: Final = {"name": "name", "mean": "reward, lowest first", "best": "reward, highest first", "cycle": "most cycles",
                "alarms": "most alarms"}  # fmt: skip
SORTS_BY_FIGURE: Final = ("mean", "best", "cycle")
MOST_SEARCHED: Final = 63


class AgentLine(NamedTuple):
    """A row of the table."""

    brief: AgentBrief
    more: AgentMore
    state: AgentState
    alarms: Sequence[AlarmRow]


async def agents(request: Request) -> Response:
    """The page, or with `hx-request` its table."""
    world: DashboardContext = request.app.state.world
    names = await known_agents(world)
    search = request.query_params.get("search", "").strip()[:MOST_SEARCHED]
    sort = request.query_params.get("sort", "")
    sort = sort if sort in SORTS else "name"
    async with asyncio.TaskGroup() as group:  # while the alarms of all agents are looked at, a page of them is read
        looking = group.create_task(alarms_now(request, names))
        by_alarms = _of_agent(await looking) if sort == "alarms" else {}
        # Only a sort by a figure reads that of all agents; else those of one page are read.
        looked = await _all_briefs(request, names) if sort in SORTS_BY_FIGURE else QueryResult(None)
        every = looked.found or [AgentBrief(name, None, None) for name in names]
        found = ordered(every, by_alarms, search, sort)
        last = max(1, -(-len(found) // ROWS))
        number = min(last, _number(request.query_params.get("page", "")))
        shown = found[(number - 1) * ROWS : number * ROWS]
        if looked.found is None and not looked.why:
            looked = await asked(_briefs(world, [one.agent for one in shown]))
            shown = looked.found or shown
        telling = group.create_task(_states(world, [brief.agent for brief in shown]))
        more = await asked(kept(request, "agents-more", FRESH_SECONDS).get(tuple(shown), lambda: _more(world, shown)))
    alarms, states = looking.result(), telling.result()
    of_agent = _of_agent(alarms)
    given = {name: value for name, value in (("search", search), ("sort", sort if sort != "name" else "")) if value}
    return await page(
        request,
        "agents_now.html" if "hx-request" in request.headers else "agents.html",
        {
            "lines": [
                AgentLine(brief, rest, states[brief.agent], of_agent.get(brief.agent, ()))
                for brief, rest in zip(shown, more.found or [NOTHING_MORE] * len(shown), strict=True)
            ],
            "count": len(found),
            "all": len(names),
            "number": number,
            "last_page": last,
            "search": search,
            "sort": sort,
            "sorts": SORTS,
            "query": urlencode(given),
            "why": looked.why,
            "alarms_why": alarms.why,
            "place": world.hub.last,
        },
    )


def _of_agent(alarms: QueryResult[Sequence[AlarmRow]]) -> Mapping[str, list[AlarmRow]]:
    found: dict[str, list[AlarmRow]] = defaultdict(list)
    for one in alarms.found or ():
        found[one.agent].append(one)
    return found


def ordered(
    every: Sequence[AgentBrief], alarms: Mapping[str, Sequence[AlarmRow]], search: str, sort: str
) -> list[AgentBrief]:
    """The agents whose name has the words `search` in it, sorted; without the figure last, equals by name."""
    found = sorted((one for one in every if search.lower() in one.agent), key=lambda one: one.agent)
    if sort in ("mean", "best"):
        sign = 1.0 if sort == "mean" else -1.0
        found.sort(key=lambda one: (one.mean is None, sign * (one.mean or 0.0)))
    elif sort == "cycle":
        found.sort(key=lambda one: -1 if one.cycle is None else one.cycle, reverse=True)
    elif sort == "alarms":
        found.sort(key=lambda one: len(alarms.get(one.agent, ())), reverse=True)
    return found


def _number(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


async def _all_briefs(request: Request, names: Sequence[str]) -> QueryResult[list[AgentBrief]]:
    world: DashboardContext = request.app.state.world
    return await asked(kept(request, "briefs", FRESH_SECONDS).get(len(names), lambda: _briefs(world, names)))


async def _briefs(world: DashboardContext, names: Sequence[str]) -> list[AgentBrief]:
    return await world.read(lambda reader: briefs(reader, names))


async def _more(world: DashboardContext, shown: Sequence[AgentBrief]) -> list[AgentMore]:
    return await world.read(lambda reader: [more_of(reader, brief) for brief in shown])


async def _states(world: DashboardContext, shown: Sequence[str]) -> dict[str, AgentState]:
    """The state of each of these agents, as it reports it; `silent` where it does not answer,
    `not running` where no run has it."""
    run = world.home.running()
    if run is None:
        return dict.fromkeys(shown, AgentState("not running"))
    acting = [name for name in shown if name in run.agents] if run.agents else list(shown)
    found = await concurrently(lambda name: state_of(world, name), acting)
    return dict.fromkeys(shown, AgentState("not running")) | dict(zip(acting, found, strict=True))


ROUTES = [Route("/agents", agents)]

"""`/overview`: the figures of the last cycles, from the history, then live from where that stood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.consumer.operations import watched
from conch.errors import BusError
from conch.experience import CostSummary, ExperiencePoint, ExperienceReader
from conch.rewards.watch import ActiveAlarm
from conch.views import costs_words
from conch_schemas import ActionTaken, ExperienceRecorded
from conch_services.dashboard.asking import QueryResult, after, asked, kept, number_of
from conch_services.dashboard.figures import AGAIN, MEAN, actions, columns, costs_chip, key_figures, sparks, thinned
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.approval import approvals_of
from conch_services.dashboard.pages.needs import active_goals
from conch_services.dashboard.pages.state import state_of
from conch_services.dashboard.ranges.wanted import USUAL, WantedRange, wanted_range
from conch_services.dashboard.ranges.window import CycleWindow, sampled_in, taken_words, window_of
from conch_services.dashboard.story.strip import colours_of
from conch_services.dashboard.stream.conversation import Conversation, talk_of
from conch_services.dashboard.world import DashboardContext

SHOWN = 400
"""Cycles in the figures and charts; a browser keeps no more of them."""
DISTRIBUTION = 200
"""Number of the last cycles in the action distribution."""
ROWS = 25
"""Rows of the table of cycles."""
GOALS = 5
"""Active goals that are shown, the newest."""
FRESH_SECONDS = 0.5
"""Seconds for which the figures are reused for all open pages."""

NO_COSTS = CostSummary({}, 0, 0)


@dataclass(frozen=True)
class OverviewHistory:
    """The figures of the page, from the history."""

    place: int = 0
    """Stream sequence up to which all that follows is complete, at least: the page goes on live behind it."""
    points: Sequence[ExperiencePoint] = ()
    """Oldest first; up to MEAN more than are shown, for the means of the first ones."""
    costs: CostSummary = NO_COSTS
    """Of the last cycles."""
    window: CycleWindow | None = None
    """The range that the points are of; None: the last ones."""
    shown: int = SHOWN
    """How many of them are shown at most, the last ones."""


async def overview(request: Request) -> Response:
    """The figures of the last cycles, then live."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    said: QueryResult[Conversation] = await asked(_talk(world, agent))
    found: dict[str, object] = {
        "approvals": await approvals_of(world, agent),
        "state": (await state_of(world, agent)).state,
        "talk": said.found or Conversation(),
        "talk_why": said.why,
    }
    for part in (await _now(request, agent), await _rows(request, agent), await _goals(request, agent)):
        found |= part
    return await page(request, "overview.html", found)


async def now(request: Request) -> Response:
    """The figures and charts, as a piece of the page: of the charts what is new since cycle `?since=`."""
    return await page(request, "overview_now.html", await _now(request, await agent_of(request)))


async def _now(request: Request, agent: str) -> dict[str, object]:
    world: DashboardContext = request.app.state.world
    look_again = kept(request, "overview", FRESH_SECONDS)
    wanted, _ = wanted_range(request.query_params)
    looked: QueryResult[OverviewHistory] = await asked(
        look_again.get((agent, wanted), lambda: world.read(lambda reader: look(reader, agent, wanted)))
    )
    past = looked.found or OverviewHistory()
    ranged = past.window is not None
    points = past.points[max(0, len(past.points) - past.shown) :]
    if ranged:
        data = thinned(columns(past.points, past.shown), SHOWN)
    else:
        data = columns(past.points, SHOWN, number_of(request, "since"))
    distribution = len(points) if ranged else DISTRIBUTION
    alarms = await alarms_of(world, agent)
    return {
        "why": looked.why,
        "broken": looked.broken,
        "place": after(request, past.place),
        "count": len(points),
        "window": past.window,
        "taken": "" if past.window is None else taken_words(past.window, len(points)),
        "lines": {chart: list(named) for chart, named in data["lines"].items()},
        "figures": key_figures(points),
        "sparks": sparks(past.points, past.shown),
        "actions": actions(points[-distribution:] if distribution else ()),
        "distribution": distribution,
        "mean": MEAN,
        **_costs(past.costs),
        "alarms": alarms,
        "data": {
            "most": SHOWN,
            "whole": ranged,
            "colours": colours_of({name: data["lines"][name] for name in ("parts", "needs")}),
            **data,
        },
        "next": max(0, points[-1].cycle - AGAIN) if points else 0,
    }


async def rows(request: Request) -> Response:
    """The last cycles as a table, as a piece of the page; those behind cycle `?since=` are marked as new."""
    return await page(request, "overview_rows.html", await _rows(request, await agent_of(request)))


async def _rows(request: Request, agent: str) -> dict[str, object]:
    """The last cycles, the newest first, with what the stream already has and the store not yet."""
    world: DashboardContext = request.app.state.world
    read: QueryResult[tuple[int, dict[int, ExperienceRecorded | ActionTaken]]] = await asked(
        world.read(lambda reader: last_cycles(reader, agent))
    )
    place, found = read.found or (0, {})
    for event in world.hub.behind(place, agent, (ActionTaken, ExperienceRecorded)):
        if isinstance(event, ActionTaken | ExperienceRecorded) and event.cycle is not None:
            there = found.get(event.cycle)
            if not _is_newer(there, event):
                continue
            found[event.cycle] = event
    last = sorted(found.items(), reverse=True)[:ROWS]
    return {
        "rows": [one for _, one in last],
        "rows_why": read.why,
        "rows_broken": read.broken,
        "since": number_of(request, "since") or (last[0][0] if last else 0),
        "newest": last[0][0] if last else 0,
    }


def _is_newer(there: ExperienceRecorded | ActionTaken | None, event: ExperienceRecorded | ActionTaken) -> bool:
    if isinstance(event, ActionTaken):
        return there is None
    return not isinstance(there, ExperienceRecorded) or there.revision <= event.revision


async def alarms_card(request: Request) -> Response:
    """The active alarms, as a piece of the page."""
    world: DashboardContext = request.app.state.world
    return await page(request, "alarms_card.html", {"alarms": await alarms_of(world, await agent_of(request))})


async def goals(request: Request) -> Response:
    """The card of the active goals, as a piece of the page."""
    return await page(request, "goals_card.html", await _goals(request, await agent_of(request)))


async def _goals(request: Request, agent: str) -> dict[str, object]:
    told = await active_goals(request, agent)
    return {"goals": told.found or (), "goals_why": told.why, "most_goals": GOALS}


async def cost(request: Request) -> Response:
    """The costs of the last cycles, as a piece of the page."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    looked: QueryResult[CostSummary] = await asked(world.read(lambda reader: reader.charts.costs(agent, SHOWN)))
    return await page(request, "cost_chip.html", _costs(looked.found or NO_COSTS))


def _costs(costs: CostSummary) -> dict[str, object]:
    return {"costs": costs, "costs_over": SHOWN, "costs_words": costs_words, "costs_chip": costs_chip}


def look(reader: ExperienceReader, agent: str, wanted: WantedRange = USUAL) -> OverviewHistory:
    """The last cycles of the agent, or those of the range."""
    place = reader.position()  # first: what is stored meanwhile comes once more, and changes nothing
    costs = reader.charts.costs(agent, SHOWN)
    if wanted in (USUAL, WantedRange("last", SHOWN)):
        return OverviewHistory(place, reader.charts.points(agent, SHOWN + MEAN), costs)
    window = window_of(reader, agent, wanted)
    before = reader.charts.points(agent, MEAN, before=window.first) if window.cycles else []
    points = sampled_in(reader, agent, window)
    return OverviewHistory(place, [*before, *points], costs, window, len(points))


def last_cycles(reader: ExperienceReader, agent: str) -> tuple[int, dict[int, ExperienceRecorded | ActionTaken]]:
    """(the store's position, the last cycles by number; an act where its scores have not come)."""
    place = reader.position()
    last = reader.cycles.last_cycle(agent) or 0
    recorded = {one.cycle: one for one in reader.cycles.last(agent, ROWS)}
    found: dict[int, ExperienceRecorded | ActionTaken] = {}
    for number in range(last, max(last - ROWS, -1), -1):
        one = recorded.get(number) or reader.cycles.act(agent, number)
        if one is not None:
            found[number] = one
    return place, found


async def _talk(world: DashboardContext, agent: str) -> Conversation:
    return await talk_of(world.bus, agent)


async def alarms_of(world: DashboardContext, agent: str) -> list[ActiveAlarm] | None:
    """The active alarms of the agent; None while the bus is away, as they are then unknown."""
    try:
        states = await watched(world.bus, [agent])
    except BusError:
        return None
    return [active for state in states.values() for active in state.active]


ROUTES = [
    Route("/overview", overview),
    Route("/overview/now", now),
    Route("/overview/rows", rows),
    Route("/overview/alarms", alarms_card),
    Route("/goals", goals),
    Route("/cost", cost),
]

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
from conch_services.dashboard.asking import QueryResult, asked
from conch_services.dashboard.figures import actions, costs_chip, key_figures, row
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.approval import approvals_of
from conch_services.dashboard.pages.needs import active_goals
from conch_services.dashboard.pages.state import state_of
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

NO_COSTS = CostSummary({}, 0, 0)


@dataclass(frozen=True)
class OverviewHistory:
    """The figures of the page, from the history."""

    place: int = 0
    """Stream sequence up to which all that follows is complete, at least: the page goes on live behind it."""
    points: Sequence[ExperiencePoint] = ()
    """Oldest first."""
    last: Sequence[ExperienceRecorded | ActionTaken] = ()
    """The last cycles, the newest first; an act where its scores have not come."""
    costs: CostSummary = NO_COSTS
    """Of the points."""


async def overview(request: Request) -> Response:
    """The figures of the last cycles, then live."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    looked: QueryResult[OverviewHistory] = await asked(world.read(lambda reader: look(reader, agent)))
    past = looked.found or OverviewHistory()
    rows = [row(point) for point in past.points]
    said: QueryResult[Conversation] = await asked(_talk(world, agent))
    found: dict[str, object] = {
        "why": looked.why,
        "broken": looked.broken,
        "past": past,
        "lines": {
            "parts": list(dict.fromkeys(name for one in rows for name in one["parts"])),
            "needs": list(dict.fromkeys(name for one in rows for name in one["needs"] or ())),
        },
        "figures": key_figures(past.points),
        "actions": actions(past.points[-DISTRIBUTION:]),
        **_costs(past.costs),
        "alarms": await alarms(world, agent),
        "approvals": await approvals_of(world, agent),
        "state": (await state_of(world, agent)).state,
        "talk": said.found or Conversation(),
        "talk_why": said.why,
        "given": {
            "place": past.place,
            "shown": SHOWN,
            "distribution": DISTRIBUTION,
            "rows": ROWS,
            "cycles": rows,
        },
    }
    return await page(request, "overview.html", found | await _goals(request, agent))


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


def look(reader: ExperienceReader, agent: str) -> OverviewHistory:
    """The last cycles of the agent, also those without all scores."""
    place = reader.position()  # first: what is stored meanwhile comes once more, and changes nothing
    last = reader.cycles.last_cycle(agent) or 0
    recorded = {one.cycle: one for one in reader.cycles.last(agent, ROWS)}
    numbers = range(last, max(last - ROWS, -1), -1)
    found = (recorded.get(number) or reader.cycles.act(agent, number) for number in numbers)
    acts = [one for one in found if one is not None]
    return OverviewHistory(place, reader.charts.points(agent, SHOWN), acts, reader.charts.costs(agent, SHOWN))


async def _talk(world: DashboardContext, agent: str) -> Conversation:
    return await talk_of(world.bus, agent)


async def alarms(world: DashboardContext, agent: str) -> list[ActiveAlarm] | None:
    """The active alarms of the agent; None while the bus is away, as they are then unknown."""
    try:
        states = await watched(world.bus, [agent])
    except BusError:
        return None
    return [active for state in states.values() for active in state.active]


ROUTES = [Route("/overview", overview), Route("/goals", goals), Route("/cost", cost)]

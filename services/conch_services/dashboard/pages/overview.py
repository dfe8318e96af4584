"""`/`: how it goes, at a glance; from the history, then live from the place that the history stood at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conch.consumer.alarms import watched
from conch.errors import BusError
from conch.experience import ExperienceReader, Point
from conch.rewards.watch.state import Active
from conch_schemas import ActionTaken, ExperienceRecorded, control_subject
from conch_services.dashboard.asking import Asked, asked, kept
from conch_services.dashboard.figures import actions, key_figures, row
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.world import World

SHOWN = 400
"""Cycles that the figures and charts are of; a browser keeps no more of them."""
DISTRIBUTION = 200
"""Of these, the last ones that the action distribution is of."""
ROWS = 25
"""Of the table of cycles."""
ASK_SECONDS = 0.5
"""Time that the agent has to say how it is; the page does not wait longer."""
STATE_SECONDS = 1.0
"""For so long what the agent said of its state is told to every page that is open."""


@dataclass(frozen=True)
class Past:
    """What the history says."""

    place: int = 0
    """Of the stream, at least which is in all that follows: the page goes on live behind it."""
    points: Sequence[Point] = ()
    """Oldest first."""
    last: Sequence[ExperienceRecorded | ActionTaken] = ()
    """The last cycles, the newest first; an act where its scores have not come."""


async def overview(request: Request) -> Response:
    """The figures of the last cycles, then live."""
    world: World = request.app.state.world
    agent = await agent_of(request)
    looked: Asked[Past] = await asked(world.read(lambda reader: look(reader, agent)))
    past = looked.found or Past()
    rows = [row(point) for point in past.points]
    found: dict[str, Any] = {
        "why": looked.why,
        "past": past,
        "lines": {of: list(dict.fromkeys(name for one in rows for name in one[of] or ())) for of in ("parts", "needs")},
        "figures": key_figures(past.points),
        "actions": actions(past.points[-DISTRIBUTION:]),
        "alarms": await alarms(world, agent),
        "state": await state_of(world, agent),
        "given": {
            "place": past.place,
            "shown": SHOWN,
            "distribution": DISTRIBUTION,
            "rows": ROWS,
            "cycles": rows,
        },
    }
    return await page(request, "overview.html", found)


def look(reader: ExperienceReader, agent: str) -> Past:
    """The last cycles of the agent, with those whose scores have not come."""
    place = reader.position()  # first: what is stored meanwhile comes once more, and changes nothing
    last = reader.last_cycle(agent) or 0
    recorded = {one.cycle: one for one in reader.cycles(agent, ROWS)}
    numbers = range(last, max(last - ROWS, -1), -1)
    found = (recorded.get(number) or reader.act(agent, number) for number in numbers)
    return Past(place, reader.points(agent, SHOWN), [one for one in found if one is not None])


async def alarms(world: World, agent: str) -> list[Active]:
    """The alarms of the agent that go on; none while the bus is away."""
    try:
        states = await watched(world.bus, [agent])
    except BusError:
        return []
    return [active for state in states.values() for active in state.active]


async def state_of(world: World, agent: str) -> str:
    """`running`, `paused` and so on, as the agent says it; `silent` where it does not answer."""
    try:
        answer = await world.bus.request(control_subject(agent, "status"), b"{}", timeout=ASK_SECONDS)
    except BusError:
        return "silent"
    return str(json.loads(answer).get("state", "silent"))


async def state(request: Request) -> Response:
    """`{"state": …}` of an agent, for a page that is open; asked of the agent at most once a second."""
    agent = await agent_of(request)
    states = kept(request, "state", STATE_SECONDS)
    return JSONResponse({"state": await states.get(agent, lambda: state_of(request.app.state.world, agent))})


ROUTES = [Route("/", overview), Route("/state", state)]

"""`/state`: the state of an agent, for the side bar of an open page."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conch.errors import BusError
from conch.text import safe_text
from conch_schemas import control_subject
from conch_services.dashboard.asking import kept
from conch_services.dashboard.page import agent_of
from conch_services.dashboard.world import DashboardContext

ASK_SECONDS = 0.5
"""Timeout of the agent's answer; a page does not wait longer."""
STATE_SECONDS = 1.0
"""Seconds for which an agent's answer about its state is reused for all open pages."""


async def state_of(world: DashboardContext, agent: str) -> tuple[str, str]:
    """(`running`, `paused` and so on, why) as the agent reports it; `silent` where it does not answer."""
    try:
        answer = await world.bus.request(control_subject(agent, "status"), b"{}", timeout=ASK_SECONDS)
    except BusError:
        return "silent", ""
    said = json.loads(answer)
    return str(said.get("state", "silent")), safe_text(str(said.get("why", "")), one_line=True)


async def state(request: Request) -> Response:
    """`{"state": …, "why": …}` of an agent; asked of it at most once a second, however many pages are open."""
    agent = await agent_of(request)
    states = kept(request, "state", STATE_SECONDS)
    found, why = await states.get(agent, lambda: state_of(request.app.state.world, agent))
    return JSONResponse({"state": found, "why": why})


ROUTES = [Route("/state", state)]

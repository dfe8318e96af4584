"""`/state`: the state of an agent, for the side bar of an open page."""

from __future__ import annotations

import json
from typing import NamedTuple

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conch.errors import BusError
from conch.text import safe_text
from conch.views import StatusQuestion, waiting_words
from conch_schemas import control_subject
from conch_services.dashboard.asking import kept
from conch_services.dashboard.page import agent_of
from conch_services.dashboard.world import DashboardContext

ASK_SECONDS = 0.5
"""Timeout of the agent's answer; a page does not wait longer."""
STATE_SECONDS = 1.0
"""Seconds for which an agent's answer about its state is reused for all open pages."""


class AgentState(NamedTuple):
    """An agent's state as it reports it."""

    state: str
    """`running`, `paused` and so on; `silent` where it does not answer."""
    why: str = ""
    asks: str = ""
    """What it waits for from its mind, in words; empty: nothing, or not for 2 s yet."""
    phase: str = ""
    """Step of its cycle, `rest` between two; empty where it does not tell."""


async def state_of(world: DashboardContext, agent: str) -> AgentState:
    """The agent's state; asked of it over the bus."""
    try:
        answer = await world.bus.request(control_subject(agent, "status"), b"{}", timeout=ASK_SECONDS)
    except BusError:
        return AgentState("silent")
    said = json.loads(answer)
    why = safe_text(str(said.get("why", "")), one_line=True)
    phase = safe_text(str(said.get("phase", "")), one_line=True)
    return AgentState(str(said.get("state", "silent")), why, _asks(said.get("asks")), phase)


def _asks(question: object) -> str:
    try:
        asked = StatusQuestion.model_validate(question)
    except ValidationError:
        return ""
    return safe_text(waiting_words(asked.phase, asked.seconds, asked.tokens), one_line=True)


async def state(request: Request) -> Response:
    """`{"state": …, "why": …, "asks": …, "phase": …}` of an agent, asked of it at most once a second for all pages."""
    agent = await agent_of(request)
    states = kept(request, "state", STATE_SECONDS)
    found = await states.get(agent, lambda: state_of(request.app.state.world, agent))
    return JSONResponse(found._asdict())


ROUTES = [Route("/state", state)]

"""`/alarms`: the alarms of all agents that are on, with their figure now, and those that were."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.rewards.watch import MEANINGS, alarm_name, severity
from conch_services.dashboard.alarms.history import AlarmHistory
from conch_services.dashboard.alarms.now import FRESH_SECONDS, alarms_now
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.page import agents_of, page

MOST_SHOWN: Final = 100
"""Alarms, and beginnings and ends, that are shown."""


async def alarms(request: Request) -> Response:
    """The page, or with `hx-request` its part that changes."""
    state = request.app.state
    history: AlarmHistory | None = getattr(state, "alarm_history", None)
    if history is None:
        history = state.alarm_history = AlarmHistory()
    now = await alarms_now(request, await agents_of(state.world))
    past = await asked(kept(request, "alarm-history", FRESH_SECONDS).get("", lambda: history.look(state.world.bus)))
    rows = now.found or ()
    return await page(
        request,
        "alarms_now.html" if "hx-request" in request.headers else "alarms.html",
        {
            "on": rows[:MOST_SHOWN],
            "more": max(0, len(rows) - MOST_SHOWN),
            "known": now.found is not None,
            "why": now.why,
            "past": (past.found or [])[:MOST_SHOWN],
            "past_why": past.why,
            "kinds": [(alarm_name(kind), severity(kind), meaning) for kind, meaning in MEANINGS.items()],
            "place": state.world.hub.last,
        },
    )


async def count(request: Request) -> Response:
    """How many alarms no person has seen, as the menu of every page has it."""
    return await page(request, "alarms_count.html", {})


ROUTES = [Route("/alarms", alarms), Route("/alarms/count", count)]

"""`/teams`: a team as of now, and the teams there are."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.cycle.team.context import team_of
from conch.teams import TOPOLOGIES
from conch.views import TeamView
from conch_services.dashboard.asking import QueryResult, asked, kept
from conch_services.dashboard.page import page
from conch_services.dashboard.teams.graph import COLOURS, TOPOLOGY_COLOURS, team_graph, team_timeline
from conch_services.dashboard.teams.now import TeamsNow

FRESH_SECONDS: Final = 0.5
"""Seconds for which a team is not looked at again, for all open pages."""
NAMES_SECONDS: Final = 2.0
"""The same of the names of the teams."""
MOST_NAMED: Final = 24
"""Other teams that have a link."""
MOST_SPOKEN: Final = 60
"""Messages of the conversation that are shown."""


async def teams(request: Request) -> Response:
    """The page, or with `hx-request` its part that changes."""
    world = request.app.state.world
    names: QueryResult[tuple[str, ...]] = await asked(
        kept(request, "team-names", NAMES_SECONDS).get("", lambda: _now(request).names(world))
    )
    known = names.found or ()
    name = _chosen(request, known)
    team = QueryResult[TeamView | None](None, names.why) if name is None else await team_now(request, name)
    shown = team.found
    found: dict[str, object] = {"agent": name} if name is not None else {}
    found |= {
        "team": shown,
        "why": team.why or names.why,
        "names": known[:MOST_NAMED],
        "more": max(0, len(known) - MOST_NAMED),
        "place": world.hub.last,
        "topologies": TOPOLOGIES,
        "topology_colours": TOPOLOGY_COLOURS,
    }
    if shown is not None:
        found |= {
            "graph": team_graph(shown),
            "timeline": team_timeline(shown),
            "spoken": shown.messages[: -MOST_SPOKEN - 1 : -1],
            "colours": {row.role: COLOURS[at % len(COLOURS)] for at, row in enumerate(shown.by_role)},
            "most_tokens": max([1, *(row.tokens for row in shown.by_role)]),
        }
    return await page(request, "teams_now.html" if "hx-request" in request.headers else "teams.html", found)


async def team_now(request: Request, name: str) -> QueryResult[TeamView | None]:
    """The team as of now, looked at once for all open pages; or why it is not known."""

    def look() -> Coroutine[Any, Any, TeamView | None]:
        return _now(request).look(request.app.state.world, name)

    return await asked(kept(request, "team", FRESH_SECONDS).get(name, look))


def _now(request: Request) -> TeamsNow:
    state = request.app.state
    now: TeamsNow | None = getattr(state, "teams_now", None)
    if now is None:
        now = state.teams_now = TeamsNow()
    return now


def _chosen(request: Request, known: tuple[str, ...]) -> str | None:
    """The team that the request names, else the first one; None: there is none."""
    named = request.query_params.get("agent", "")
    if named in known or team_of(request.app.state.world.settings, named) is not None:
        return named
    return known[0] if known else None


ROUTES = [Route("/teams", teams)]

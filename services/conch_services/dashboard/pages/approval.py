"""`/approval`: the act that waits for a person's approval, as a piece of the overview and of the chat page."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.requests import waiting_acts
from conch.views import WaitingAct, approvals_shown
from conch_schemas import ActAsked
from conch_services.dashboard.asking import QueryResult, asked
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.world import DashboardContext


async def approvals_of(world: DashboardContext, agent: str) -> Sequence[WaitingAct]:
    """The act that waits; none while the bus is away, where no decision could be taken."""
    found: QueryResult[list[ActAsked]] = await asked(_waiting(world, agent))
    return approvals_shown(found.found or ()).acts


async def approval(request: Request) -> Response:
    """The card of the act that waits."""
    agent = await agent_of(request)
    acts = await approvals_of(request.app.state.world, agent)
    return await page(request, "approval_card.html", {"approvals": acts})


async def _waiting(world: DashboardContext, agent: str) -> list[ActAsked]:
    return await waiting_acts(world.bus, world.home, [agent])


ROUTES = [Route("/approval", approval)]

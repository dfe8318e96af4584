"""The API's requests about acts that wait for a person's approval."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.responses import Response

from conch.requests import decide_act, waiting_acts
from conch.text import well_formed
from conch.views import Approvals, Decided, approvals_shown
from conch_services.dashboard.api.asked import AgentPath, AgentQuery, TheWorld, document, known_agents, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

LONGEST_REASON = 500
"""Most characters of a person's reason: as many as are kept."""


class DecisionRequest(BaseModel):
    """A person's decision on an act that waits."""

    model_config = ConfigDict(extra="forbid")

    act: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{8,36}$")]
    """The id of the act, as `/approvals` shows it."""
    reason: Annotated[str, StringConstraints(max_length=LONGEST_REASON)] = ""


@router.get("/approvals", response_model=Approvals, responses=responses(404))
async def approvals(world: TheWorld, agent: AgentQuery = None) -> Response:
    """The acts that wait for a person's approval; without an agent, those of all agents."""
    names = list(await known_agents(world)) if agent is None else [await the_agent(world, agent)]
    return document(approvals_shown(await waiting_acts(world.bus, world.home, names)))


@router.post("/agents/{agent}/approve", response_model=Decided, responses=responses(404, 409))
async def approve_act(world: TheWorld, agent: AgentPath, said: DecisionRequest) -> Response:
    """Approve an act that waits. Of several decisions the first counts: the others are refused."""
    return await _decided(world, agent, said, "approved")


@router.post("/agents/{agent}/deny", response_model=Decided, responses=responses(404, 409))
async def deny_act(world: TheWorld, agent: AgentPath, said: DecisionRequest) -> Response:
    """Deny an act that waits: it is blocked. Of several decisions the first counts: the others are refused."""
    return await _decided(world, agent, said, "denied")


async def _decided(
    world: DashboardContext, agent: str, said: DecisionRequest, decision: Literal["approved", "denied"]
) -> Response:
    name = await the_agent(world, agent)
    runs = await decide_act(
        world.bus,
        world.home,
        name,
        said.act,
        "approve" if decision == "approved" else "deny",
        well_formed(said.reason),
    )
    return document(Decided(id=said.act, agent=name, decision=decision, running=runs))

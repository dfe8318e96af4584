"""The API's requests about teams: one as of now, and another topology."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.teams import Topology
from conch.views import SWITCH_REFUSALS, TeamSwitchAnswer, TeamView
from conch_services.dashboard.api.actions import handed
from conch_services.dashboard.api.asked import AgentPath, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.teams.now import WatchedTeam

router = APIRouter()


class WantedTopology(BaseModel):
    """A topology."""

    model_config = ConfigDict(extra="forbid")

    topology: Topology


@router.get("/agents/{agent}/team", response_model=TeamView, responses=responses(404))
async def team(world: TheWorld, agent: AgentPath) -> Response:
    """The team that the agent is: roles, switches, the last steps and messages; 404 for an agent that is none."""
    name = await the_agent(world, agent)
    found = await WatchedTeam(name).look(world)
    if found is None:
        raise HTTPException(404, f"{name} is no team: conch team list names those of the configuration.")
    return document(found)


@router.post("/agents/{agent}/switch", response_model=TeamSwitchAnswer, responses=responses(404, 409))
async def switch(world: TheWorld, agent: AgentPath, wanted: WantedTopology) -> Response:
    """Ask a running team for another topology: committed at the end of the step. 409 says why it is refused."""
    reply = await handed(world, agent, "switch", {"topology": wanted.topology})
    found = TeamSwitchAnswer.model_validate({key: reply[key] for key in TeamSwitchAnswer.model_fields})
    if not found.accepted:
        why = SWITCH_REFUSALS[found.reason].replace("NAME", agent)
        raise HTTPException(409, f"The team {agent} does not switch to {wanted.topology} now: {why}.")
    return document(found)

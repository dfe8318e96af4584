"""The API's requests about goals that an agent set itself: acceptance and veto."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.responses import Response

from conch.config import Masker
from conch.requests import decide_goal
from conch.text import well_formed
from conch.views import GoalDecided
from conch_services.dashboard.api.asked import AgentPath, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

LONGEST_REASON = 500
"""Most characters of a person's reason: as many as are kept."""


class GoalDecisionRequest(BaseModel):
    """A person's decision on a goal that the agent set itself."""

    model_config = ConfigDict(extra="forbid")

    goal: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The goal's id, as `/goals` shows it."""
    reason: Annotated[str, StringConstraints(max_length=LONGEST_REASON)] = ""


@router.post("/agents/{agent}/goal/accept", response_model=GoalDecided, responses=responses(404, 409))
async def accept_goal(world: TheWorld, agent: AgentPath, said: GoalDecisionRequest) -> Response:
    """Accept a goal that the agent set itself: from now on it pays. Twice is once; after a veto it is refused."""
    return await _decided(world, agent, said, "accepted")


@router.post("/agents/{agent}/goal/veto", response_model=GoalDecided, responses=responses(404, 409))
async def veto_goal(world: TheWorld, agent: AgentPath, said: GoalDecisionRequest) -> Response:
    """Veto a goal that the agent set itself: it ends, and the agent may not set it again. Twice is once."""
    return await _decided(world, agent, said, "vetoed")


async def _decided(
    world: DashboardContext, agent: str, said: GoalDecisionRequest, decision: Literal["accepted", "vetoed"]
) -> Response:
    name, goal = await the_agent(world, agent), well_formed(said.goal)
    again, runs = await decide_goal(
        world.bus,
        world.home,
        name,
        goal,
        "accept" if decision == "accepted" else "veto",
        said.reason,
        masker=Masker.of(world.settings),
    )
    return document(GoalDecided(goal=goal, agent=name, decision=decision, again=again, running=runs))

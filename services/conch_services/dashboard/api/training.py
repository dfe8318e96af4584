"""The API's requests about the training of an agent: its lineage; begin a round, stop it, promote, roll back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.errors import BusUnreachableError
from conch.requests import TrainerVerb, ask_trainer
from conch.text import safe_text
from conch.views import LineageShown, TrainerAsked
from conch_schemas import Digest
from conch_services.dashboard.api.asked import AgentPath, AgentQuery, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.lineages import lineage_document
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

RoundQuery = Annotated[
    str | None, Query(pattern="^[0-9a-f]{64}$", description="Show this round whole, not the newest.")
]


class PromoteRequest(BaseModel):
    """The adapter that is to act."""

    model_config = ConfigDict(extra="forbid")

    adapter: Digest


@router.get("/lineage", response_model=LineageShown, responses=responses(404))
async def lineage(world: TheWorld, agent: AgentQuery = None, round: RoundQuery = None) -> Response:
    """An agent's adapters: rounds, gates, trials, promotions and rollbacks, and what the acts of each earned."""
    found = await lineage_document(world, await the_agent(world, agent), round)
    if round is not None and found.round is None:
        raise HTTPException(404, f"The lineage of {found.agent} has no such round: /api/v1/lineage names those it has.")
    return document(found)


@router.post("/agents/{agent}/training/run", response_model=TrainerAsked, responses=responses(404, 409))
async def run_training(world: TheWorld, agent: AgentPath) -> Response:
    """Begin a round now, whatever the schedule says. 409 with the reason where it cannot begin."""
    return await _asked(world, agent, "run")


@router.post("/agents/{agent}/training/stop", response_model=TrainerAsked, responses=responses(404, 409))
async def stop_training(world: TheWorld, agent: AgentPath) -> Response:
    """Stop the round or the trial that is in progress. Twice is once."""
    return await _asked(world, agent, "stop")


@router.post("/agents/{agent}/training/promote", response_model=TrainerAsked, responses=responses(404, 409))
async def promote(world: TheWorld, agent: AgentPath, said: PromoteRequest) -> Response:
    """Let an adapter act from the next cycle on. Twice is once."""
    return await _asked(world, agent, "promote", said.adapter)


@router.post("/agents/{agent}/training/rollback", response_model=TrainerAsked, responses=responses(404, 409))
async def roll_back(world: TheWorld, agent: AgentPath) -> Response:
    """Let what acted before the last promotion act again, from the next cycle on."""
    return await _asked(world, agent, "rollback")


async def _asked(world: DashboardContext, agent: str, verb: TrainerVerb, adapter: str | None = None) -> Response:
    name = await the_agent(world, agent)
    bus = world.bus
    try:
        said = await ask_trainer(bus, verb, name, adapter)
    except BusUnreachableError as error:
        raise HTTPException(409, f"{str(error)[0].upper()}{str(error)[1:]}.") from None
    return document(TrainerAsked(agent=name, request=verb, said=safe_text(said, one_line=True)))

"""The API's request to put other weights in force."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.config import write_weights
from conch.consumer import expected_parts, report_weights, weights_in_force
from conch.consumer.plugins import Discovery, rules_of
from conch.errors import ConfigError, UsageError
from conch.requests import changed_weights, refuse_unpayable, weights_file, with_weights
from conch.rewards import weights_version
from conch.views import WeightsChanged
from conch_services.dashboard.api.asked import AgentPath, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses

router = APIRouter()

ComponentName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Weight = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class WeightsRequest(BaseModel):
    """Weights by component; the others keep theirs where all sum to 1, else they are rescaled in proportion."""

    model_config = ConfigDict(extra="forbid")

    weights: Annotated[dict[ComponentName, Weight], Field(min_length=1, max_length=200)]


@router.post("/agents/{agent}/weights", response_model=WeightsChanged, responses=responses(404, 409))
async def set_weights(world: TheWorld, agent: AgentPath, said: WeightsRequest) -> Response:
    """Put other weights in force from the agent's next act on, as `conch reward weights --set` does: also in the home's
    conch.yaml where there is one agent. Twice is once. 409 without a run, and where the settings forbid it."""
    name, bus, run = await the_agent(world, agent), world.bus, world.home.running()
    if run is None:
        raise HTTPException(409, "No run is in progress, whose rules would count: conch run begins one.")
    found, settings = Discovery(rules_of(run.rules)), world.settings
    ((_, in_force),) = await weights_in_force(bus, [name])
    why = f"the page: {', '.join(f'{one}={weight:g}' for one, weight in said.weights.items())}"[:500]
    try:
        refuse_unpayable(settings, found, in_force, said.weights)
        other = changed_weights(settings, found, in_force, said.weights)
        wanted, why = other.table, f"{why} ({other.words})" if other.words else why
        parts = expected_parts(with_weights(settings, wanted), found)
        file = weights_file(world.home, None, run) if len(run.agents) == 1 else None
        if file is not None:
            write_weights(file, wanted)
    except UsageError as error:
        raise HTTPException(422, str(error)) from None
    except ConfigError as error:
        raise HTTPException(409, str(error)) from None
    told = await report_weights(bus, {name: world.home.agentuid(name)}, parts, why)
    answer = WeightsChanged(
        version=weights_version(parts), why=why, agents=told, file=None if file is None else str(file), parts=parts
    )
    return document(answer)

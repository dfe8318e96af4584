"""The API's requests about alarms: that a person has seen one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.consumer.operations import watched
from conch.requests import acknowledge, key_of
from conch.views import AlarmAcknowledged
from conch_schemas import AlarmKind
from conch_services.dashboard.api.asked import AgentPath, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses

router = APIRouter()


class SeenAlarm(BaseModel):
    """An alarm that is on."""

    model_config = ConfigDict(extra="forbid")

    alarm: AlarmKind
    component: Annotated[str, Field(max_length=200)] | None = None
    """None: the alarm is about all of them."""


@router.post("/agents/{agent}/alarms/acknowledge", response_model=AlarmAcknowledged, responses=responses(404, 409))
async def acknowledge_alarm(world: TheWorld, agent: AgentPath, seen: SeenAlarm) -> Response:
    """Say that you have seen an alarm: it stays on and is told, and asks for you no more. Twice is once; an alarm that
    begins again is another one. 409 where it is not on."""
    name = await the_agent(world, agent)
    states = await watched(world.bus, [name])
    active = states[name].active if name in states else ()
    found = next((one for one in active if (one.alarm, one.component) == (seen.alarm, seen.component)), None)
    if found is None:
        raise HTTPException(409, f"The alarm {seen.alarm} of {name} is not on: it is over, or never began.")
    when = await asyncio.to_thread(acknowledge, world.home, key_of(name, found), datetime.now(UTC))
    return document(
        AlarmAcknowledged(
            agent=name,
            alarm=found.alarm,
            component=found.component,
            since=found.cycle,
            acknowledged=when.isoformat(),
        )
    )

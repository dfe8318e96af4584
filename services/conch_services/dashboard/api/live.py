"""The API's reads from the bus and the run: status, goals, consumers, dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.bus import Bus
from conch.bus.jetstream import JetStreamBus
from conch.consumer.runtime import open_dead_letters, settle
from conch.errors import BusUnreachableError
from conch.requests import active_goals, retried
from conch.views import (
    BusInfo,
    Consumers,
    Goals,
    Lags,
    Letters,
    LetterSettled,
    MetricsAt,
    Status,
    consumers_shown,
    dead_letters_shown,
    gather,
    goals_shown,
    lag_shown,
    standings,
    survey,
)
from conch_schemas import ConsumerFailed
from conch_services.dashboard.api.asked import AgentQuery, Limit, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

Letter = Annotated[str, Path(min_length=1, max_length=100, description="The letter's id.")]


@router.get("/status", response_model=Status, responses=responses(404))
async def status(world: TheWorld, agent: AgentQuery = None) -> Response:
    """Processes, the agents, their rewards, needs and goals, and how far the consumers are."""
    run = world.home.running()
    acting = list(run.agents) if run is not None and agent is None else []
    names = acting or [await the_agent(world, agent)]

    @asynccontextmanager
    async def bus() -> AsyncIterator[Bus]:
        yield world.bus

    return document(await gather(world.home, world.settings, names, bus, world.read))


@router.get("/goals", response_model=Goals, responses=responses(404))
async def goals(world: TheWorld, agent: AgentQuery = None) -> Response:
    """The active goals and how far each has come."""
    name = await the_agent(world, agent)
    return document(goals_shown(await active_goals(world.bus, world.home, name)))


@router.get("/consumers", response_model=Consumers, responses=responses())
async def consumers(world: TheWorld) -> Response:
    """Every consumer that has a position on this bus, whether it runs or not."""
    return document(consumers_shown(*await standings(world.bus)))


@router.get("/consumers/lag", response_model=Lags, responses=responses())
async def lag(world: TheWorld) -> Response:
    """How many events wait for each consumer, the most first."""
    return document(lag_shown(*await standings(world.bus)))


@router.get("/bus", response_model=BusInfo, responses=responses())
async def bus(world: TheWorld) -> Response:
    """The server, the stream and the bucket, how far the consumers are, and what to look after."""
    there = world.bus
    if not isinstance(there, JetStreamBus):
        raise BusUnreachableError("the bus is one in memory, without a server that could be asked")
    run = world.home.running()
    url = (run.bus.url if run is not None else "") or world.settings.bus.url or ""
    return document(await survey(there, there.connection, world.settings, url))


@router.get("/metrics", response_model=MetricsAt, responses=responses())
async def metrics(world: TheWorld) -> Response:
    """The address at which the run's metrics are scraped: another port, without a token."""
    run = world.home.running()
    return document(MetricsAt(url=run.metrics if run is not None else None))


@router.get("/dlq", response_model=Letters, responses=responses())
async def letters(world: TheWorld, limit: Limit = 50) -> Response:
    """The dead letters that are neither retried with success nor dropped yet."""
    return document(dead_letters_shown([letter async for letter in open_dead_letters(world.bus)][-limit:]))


@router.post("/dlq/{letter}/retry", response_model=LetterSettled, responses=responses(404, 409))
async def retry(world: TheWorld, letter: Letter) -> Response:
    """Have a dead letter handled once more by its consumer in the run; 409 where it fails again, and it stays."""
    found = await _letter(world, letter)
    await retried(world.bus, found)
    return await _settled(world, found, "retried")


@router.post("/dlq/{letter}/drop", response_model=LetterSettled, responses=responses(404))
async def drop(world: TheWorld, letter: Letter) -> Response:
    """Drop a dead letter: it stays on the stream as a fact and is listed no more."""
    return await _settled(world, await _letter(world, letter), "dropped")


async def _letter(world: DashboardContext, name: str) -> ConsumerFailed:
    async for letter in open_dead_letters(world.bus):
        if letter.id == name:
            return letter
    raise HTTPException(404, "There is no open dead letter of this id: /api/v1/dlq has those that there are.")


async def _settled(world: DashboardContext, letter: ConsumerFailed, how: Literal["retried", "dropped"]) -> Response:
    await settle(world.bus, letter, how)
    return document(LetterSettled(id=letter.id, settled=how))

"""The API's reads from the experience store: cycles, rewards, needs, marks."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.config import read
from conch.errors import BusError, NoStoreError
from conch.experience import CycleFilter, ExperienceReader, removed_words
from conch.views import (
    LAST,
    AgentRow,
    Agents,
    Config,
    Cycle,
    Cycles,
    Marks,
    NeedChanges,
    Needs,
    Rewards,
    Verified,
    WholeCycle,
    changes_shown,
    config_in_force,
    cycles_shown,
    last_marks,
    marks_shown,
    needs_shown,
    reward_rows,
    rewards_shown,
    standings,
    verification,
    whole_row,
)
from conch_services.dashboard.api.asked import (
    AgentQuery,
    Before,
    CycleNumber,
    Limit,
    TheFilters,
    TheWorld,
    document,
    known_agents,
    the_agent,
)
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.checking import ChainChecks
from conch_services.dashboard.world import DashboardContext

router = APIRouter()


@router.get("/agents", response_model=Agents, responses=responses())
async def agents(world: TheWorld) -> Response:
    """Every agent that acts, or has acted."""
    run = world.home.running()
    running = run.agents if run is not None else ()
    names = await known_agents(world)

    def rows(reader: ExperienceReader) -> dict[str, tuple[int | None, float | None]]:
        return {name: (reader.cycles.last_cycle(name), reader.charts.figures(name, LAST).mean_total) for name in names}

    try:
        figures = await world.read(rows)
    except NoStoreError:
        figures = {}
    found = [
        AgentRow(agent=name, running=name in running, last_cycle=last, mean=mean)
        for name in names
        for last, mean in [figures.get(name, (None, None))]
    ]
    return document(Agents(agents=tuple(found)))


@router.get("/cycles", response_model=Cycles, responses=responses(404))
async def cycles(
    world: TheWorld, filters: TheFilters, agent: AgentQuery = None, limit: Limit = 20, before: Before = None
) -> Response:
    """The last cycles that the filters let through, oldest first; of all agents where none is named, there are several
    and nothing else is asked."""
    if agent is None and before is None and filters == CycleFilter() and len(await known_agents(world)) > 1:
        return document(cycles_shown(await world.read(lambda reader: reader.cycles.last(None, limit))))
    name = await the_agent(world, agent)
    found = await world.read(lambda reader: reader.cycles.find(name, filters, limit, before))
    return document(cycles_shown(found[::-1]))


@router.get("/cycles/{cycle}", response_model=Cycle, responses=responses(404))
async def cycle(world: TheWorld, cycle: CycleNumber, agent: AgentQuery = None) -> Response:
    """One cycle with everything that is known of it."""
    name = await the_agent(world, agent)

    def whole(reader: ExperienceReader) -> WholeCycle | str:
        found = reader.cycles.get(name, cycle)
        if found is None:
            return removed_words(reader.retention.removals(name), name, cycle)
        return whole_row(found, reader.chain.marks_of(name, str(found.action_id)))

    row = await world.read(whole)
    if isinstance(row, str):
        raise HTTPException(404, f"{row[0].upper()}{row[1:]}.") if row else unknown(name, cycle)
    return document(Cycle(cycle=row))


def unknown(agent: str, cycle: int) -> HTTPException:
    """The answer for a cycle that is not there."""
    return HTTPException(404, f"There is no recorded cycle {cycle} of {agent}: /api/v1/cycles has the last ones.")


@router.get("/rewards", response_model=Rewards, responses=responses(404))
async def rewards(world: TheWorld, agent: AgentQuery = None, limit: Limit = 1000) -> Response:
    """Every component of the reward over the last experiences; `lag` is null where the bus is away."""
    name = await the_agent(world, agent)
    waiting = await _lags(world)
    rows = await world.read(lambda reader: reward_rows(reader.charts, name, limit, waiting))
    run = world.home.running()
    return document(rewards_shown(rows, [one.model_dump() for one in run.set_aside] if run is not None else []))


async def _lags(world: DashboardContext) -> dict[str, int]:
    try:
        return {one.name: one.lag for one in (await standings(world.bus))[1]}
    except BusError:
        return {}


@router.get("/needs", response_model=Needs, responses=responses(404))
async def needs(world: TheWorld, agent: AgentQuery = None) -> Response:
    """Every need with its satisfaction, the most pressing marked."""
    name = await the_agent(world, agent)
    try:
        changes = await world.read(lambda reader: reader.charts.needs_history(name, 1))
    except NoStoreError:
        changes = []
    return document(needs_shown(world.settings.needs, changes[-1] if changes else None))


@router.get("/needs/history", response_model=NeedChanges, responses=responses(404))
async def need_history(world: TheWorld, agent: AgentQuery = None, limit: Limit = 20) -> Response:
    """How the needs changed, and with what."""
    name = await the_agent(world, agent)
    return document(changes_shown(await world.read(lambda reader: reader.charts.needs_history(name, limit))))


@router.get("/marks", response_model=Marks, responses=responses(404, 409))
async def marks(world: TheWorld, agent: AgentQuery = None, limit: Limit = 20) -> Response:
    """The last marks of the witness; 409 where a row of them was changed."""
    name = await the_agent(world, agent)
    return document(marks_shown(await world.read(lambda reader: last_marks(reader.chain, name, limit))))


@router.get("/marks/verify", response_model=Verified, responses=responses(404))
async def verify(request: Request, world: TheWorld, agent: AgentQuery = None) -> Response:
    """Whether every act has its mark, and neither a mark nor what it seals in the store was changed; 100,000 marks take
    a minute. One that is being verified already is waited for."""
    name = await the_agent(world, agent)
    last = await world.read(lambda reader: reader.chain.last_mark(name))
    checks: ChainChecks = request.app.state.checks
    check = checks.begin(name, -1 if last is None else last)
    if check.task is not None:
        await asyncio.shield(check.task)  # other requests wait for it, too
    if check.why or check.unknown:
        raise HTTPException(503, check.why or "The bus is away: which marks are still to come is not known.")
    return document(
        verification(
            name,
            check.problems,
            acts=check.acts,
            marks=check.marks,
            waiting=check.waiting,
            removals=check.removals,
            compared=check.compared,
        )
    )


@router.get("/settings", response_model=Config, responses=responses())
async def settings(world: TheWorld) -> Response:
    """Every setting in force and where it came from; secrets are masked."""
    return document(config_in_force(world.settings, await asyncio.to_thread(read, None, world.home, {})))

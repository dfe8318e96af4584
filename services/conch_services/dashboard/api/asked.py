"""What the API's handlers share: bounded parameters, the agent that a request is about, the answer as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.errors import NoStoreError
from conch.experience import CycleFilter
from conch.views import View
from conch_schemas.action import ActionKind, OutcomeStatus
from conch_schemas.envelope import AGENT_PATTERN
from conch_services.dashboard.world import DashboardContext

LARGEST: Final = 2**63 - 1
_NAMED = Query(pattern=AGENT_PATTERN, description="The agent; where there is one alone it need not be named.")

AgentQuery = Annotated[str | None, _NAMED]
AgentPath = Annotated[str, Path(pattern=AGENT_PATTERN)]
CycleNumber = Annotated[int, Path(ge=0, le=LARGEST)]
Limit = Annotated[int, Query(ge=1, le=1000, description="The last so many, oldest first.")]
Before = Annotated[int | None, Query(ge=0, le=LARGEST, description="Only cycles before this one: the next page.")]
Text = Annotated[str | None, Query(min_length=1, max_length=200, description="In thought, reply or action.")]
Name = Annotated[str | None, Query(min_length=1, max_length=100)]
Total = Annotated[float | None, Query(allow_inf_nan=False)]
Number = Annotated[int | None, Query(ge=0, le=LARGEST)]


def world_of(request: Request) -> DashboardContext:
    """The dashboard's view of the home."""
    world: DashboardContext = request.app.state.world
    return world


TheWorld = Annotated[DashboardContext, Depends(world_of)]


def _filters(
    outcome: OutcomeStatus | None = None,
    kind: ActionKind | None = None,
    tool: Name = None,
    skill: Name = None,
    need: Name = None,
    rule: Name = None,
    goal: Name = None,
    complete: bool | None = None,
    least: Total = None,
    most: Total = None,
    first: Number = None,
    last: Number = None,
    text: Text = None,
) -> CycleFilter:
    return CycleFilter(outcome, kind, tool, skill, need, rule, goal, complete, least, most, first, last, text)


TheFilters = Annotated[CycleFilter, Depends(_filters)]


def clear_query(request: Request) -> None:
    """Answers 422 for a parameter that there is not, or that is named twice: neither is passed over in silence."""
    known: frozenset[str] = request.app.state.parameters[request.scope["route"].path]
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in counted.items():
        if name not in known:
            said = f"there are {', '.join(sorted(known))}" if known else "there are none here"
            raise HTTPException(422, f"There is no parameter {name[:60]!r}: {said}.")
        if times > 1:
            raise HTTPException(422, f"The parameter {name} is named {times} times: name it once.")


def document(view: View) -> Response:
    """The answer, as JSON."""
    return answer(view.document())


def answer(shown: Any) -> Response:
    """Plain JSON values as an answer."""
    return Response(msgspec.json.encode(shown), media_type="application/json")


async def known_agents(world: DashboardContext) -> tuple[str, ...]:
    """Names of the agents that act or have acted, sorted; of a new home, the one of the settings."""
    run = world.home.running()
    try:
        acted = await world.read(lambda reader: reader.agents())
    except NoStoreError:
        acted = ()
    acting = {*acted, *(run.agents if run is not None else ())}
    names = acting | {*world.home.agents()}
    if acting:  # the one of the settings is made with a home, whichever agents act in it
        names -= {world.settings.agent} - acting
    return tuple(sorted(names)) or (world.settings.agent,)


async def the_agent(world: DashboardContext, named: str | None) -> str:
    """The agent that is named, or the only one, or that of the settings where it is among several.

    Answers 404 for one that is not there, 422 where one of several must be named.
    """
    there = await known_agents(world)
    if named is None:
        return await _usual(world, there)
    if named not in there:
        raise HTTPException(404, f"There is no agent {named} here: /api/v1/agents names those that there are.")
    return named


async def _usual(world: DashboardContext, there: tuple[str, ...]) -> str:
    if len(there) > 1 and world.settings.agent not in there:
        raise HTTPException(422, f"There are {len(there)} agents: name one with ?agent=.")
    return world.settings.agent if world.settings.agent in there else there[0]

"""The alarms that are on, of all agents, for the page of alarms and for the count in the frame of every page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from conch.consumer.operations import watched
from conch.requests import acknowledged
from conch.views import AlarmRow, alarm_rows
from conch_services.dashboard.asking import QueryResult, asked, kept
from conch_services.dashboard.world import DashboardContext

FRESH_SECONDS: Final = 2.0
"""Seconds for which alarms are not looked at again, for all open pages."""
WAIT_SECONDS: Final = 0.15
"""Seconds that a page waits for them; then it shows those of the look before."""


async def alarms_now(request: Request, agents: Sequence[str]) -> QueryResult[Sequence[AlarmRow]]:
    """The alarms of these agents, those that no person has seen first; or why they are not known."""
    state = request.app.state
    found = kept(request, "alarms", FRESH_SECONDS).get(_key(state.world, agents), lambda: _look(state.world, agents))
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            result: QueryResult[Sequence[AlarmRow]] = await asked(found)
    except TimeoutError:
        last: Sequence[AlarmRow] | None = getattr(state, "last_alarms", None)
        return QueryResult(last, "" if last is not None else "The alarms are being looked at.")
    if result.found is not None:
        state.last_alarms = result.found
    return result


async def _look(world: DashboardContext, agents: Sequence[str]) -> Sequence[AlarmRow]:
    states = await watched(world.bus, agents)
    return alarm_rows(states, world.settings, await asyncio.to_thread(acknowledged, world.home))


def _key(world: DashboardContext, agents: Sequence[str]) -> tuple[int, int]:
    """Another one once there are more agents, or one more alarm was acknowledged."""
    try:
        changed = world.home.acknowledged_file.stat().st_mtime_ns
    except OSError:
        changed = 0
    return len(agents), changed

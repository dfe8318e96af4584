"""`conch watch`: the cycles as they are recorded."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

from conch.cli.common import Common, emit, open_bus, say
from conch.cli.facts import agent_named, following, names_in
from conch.cli.options import COMMON, AgentName
from conch.errors import BusUnreachableError
from conch.views.line import cycle_line
from conch_schemas import ContractViolationError, ExperienceRecorded, decode, subject_filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from conch.bus import Bus
    from conch.home import Home


async def watch(*, agent: AgentName = None, common: Common = COMMON) -> None:
    """A line for every cycle as it is recorded, until the run ends or Ctrl-C; JSON Lines with --json or in a pipe."""
    from conch.experience import cycle_row

    home, settings = common.existing(), common.settings()
    running = home.running() is not None
    if not running and settings.bus.url is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: conch run starts one, --home names another")
    names = names_in(home, settings) if agent is None else [agent_named(home, settings, agent)]
    width = max(map(len, names)) if len(names) > 1 else 0
    as_json = common.json or not sys.stdout.isatty()
    async with open_bus(home, settings) as bus:
        async for experience in recorded(bus, names, home if running else None):
            if as_json:
                emit(cycle_row(experience))
            else:
                say(cycle_line(experience, width))


async def recorded(bus: Bus, agents: Sequence[str], home: Home | None) -> AsyncIterator[ExperienceRecorded]:
    """Experiences of these agents from now on, later revisions too; until the home's run ends, without one for ever."""
    after = (await bus.state()).last
    one, wanted = agents[0] if len(agents) == 1 else "*", frozenset(agents)
    async with aclosing(following(bus, [subject_filter(ExperienceRecorded, one)], after=after, home=home)) as found:
        async for deliveries in found:
            for delivery in deliveries:
                try:
                    event = decode(delivery.data)
                except ContractViolationError:
                    continue
                if isinstance(event, ExperienceRecorded) and event.agent in wanted:
                    yield event

"""`conch watch` in a pipe: a line for every cycle as it is recorded."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from conch.cli.common import emit, open_bus, say
from conch.cli.people_facts import following
from conch.views import cycle_line
from conch_schemas import ContractViolationError, ExperienceRecorded, decode, subject_filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from conch.bus import Bus
    from conch.config import Settings
    from conch.home import Home


async def print_lines(home: Home, settings: Settings, names: Sequence[str], *, as_json: bool) -> None:
    """Print lines until the run ends; without a run, endlessly."""
    from conch.views import cycle_row

    width = max(map(len, names)) if len(names) > 1 else 0
    running = home.running() is not None
    async with open_bus(home, settings) as bus:
        async for experience in recorded(bus, names, home if running else None):
            if as_json:
                emit(cycle_row(experience))
            else:
                say(cycle_line(experience, width))


async def recorded(bus: Bus, agents: Sequence[str], home: Home | None) -> AsyncIterator[ExperienceRecorded]:
    """Experiences of these agents from now on, later revisions too; until the home's run ends, without one
    endlessly."""
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

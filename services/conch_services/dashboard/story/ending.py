"""What a page says where no run is in progress: when the last act was, and the command that starts it again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from conch.experience import ExperienceReader
from conch.home import DEFAULT_HOME, Home
from conch_services.dashboard.asking import asked
from conch_services.dashboard.stream.hub import ALONE
from conch_services.dashboard.world import DashboardContext


class RunEnd(NamedTuple):
    """How the last run of a home stands."""

    is_over: bool
    """No run is in progress."""
    command: str
    """What starts a run of this home."""
    cycle: int | None = None
    """The agent's last cycle, of a run that is over; None: there is none."""
    time: str = ""
    """When it acted, ISO 8601, UTC; empty: it never has."""


async def run_end(world: DashboardContext, agent: str) -> RunEnd:
    """As of now."""
    command = run_command(world.home)
    if world.hub.state != ALONE:
        return RunEnd(False, command)
    last = (await asked(world.read(lambda reader: _last(reader, agent)))).found
    return RunEnd(True, command) if last is None else RunEnd(True, command, *last)


def run_command(home: Home) -> str:
    """The command that starts a run of this home, as a shell takes it."""
    usual = Path(DEFAULT_HOME).expanduser()
    return "conch run" if home.path == usual else f"conch run --home {shlex.quote(str(home.path))}"


def _last(reader: ExperienceReader, agent: str) -> tuple[int, str] | None:
    found = reader.charts.points(agent, 1)
    return (found[0].cycle, found[0].acted_at.isoformat()) if found else None

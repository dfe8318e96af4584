"""The command `conch watch`, which chooses between the screen and lines."""

from __future__ import annotations

import os
import sys

from conch.cli.common import CommonOptions
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named, names_in
from conch.cli.watch.lines import print_lines
from conch.errors import BusUnreachableError


async def watch(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The cycles of a run as they happen: a screen on a terminal (`?` shows its keys).

    With --json or in a pipe a line for every cycle as it is recorded, until the run ends or Ctrl-C.
    """
    home, settings = common.existing(), common.settings()
    if home.running() is None and settings.bus.url is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: conch run starts one, --home names another")
    names = names_in(home, settings) if agent is None else [agent_named(home, settings, agent)]
    if common.json or not _on_terminal():
        await print_lines(home, settings, names, as_json=common.json or not sys.stdout.isatty())
    else:
        from conch.cli.watch.screen import show

        await show(home, settings, names)


def _on_terminal() -> bool:
    """Whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")

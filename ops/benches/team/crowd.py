"""Many teams in one run of `conch`: real processes, a nats-server, a disk, the reflex mind."""

from __future__ import annotations

import os
import time
from pathlib import Path

from live import live

CREW = "agent: echo\nteam: {crew: {}}\n"
"""Settings of a team of four with the default roles; each of the run has a workspace of its own."""


def crowd(teams: int, steps: int) -> dict[str, float]:
    """A run of so many teams, until so many steps of each, on average, are recorded.

    Seconds from the command on; by process, memory at that moment, and the processor time of a step between the moment
    at which each team had its first step and that one.
    """

    def prepare(home: Path) -> None:
        (home / "conch.yaml").write_text(CREW)

    with live(teams, "reflex", prepare=prepare, more=("--team", "crew")) as run:
        first = run.until_each(teams)
        begun, before = run.recorded(), run.moment()
        while (number := run.recorded()) < teams * steps:
            run.check()
            time.sleep(0.05)
        after, load = run.moment(), os.getloadavg()[0]
        run.end()
    took = after.time - run.began
    spent = {name: (after.cpu[name] - before.cpu[name]) * 1000 / (number - begun) for name in after.cpu}
    return {
        f"{teams} teams in one run: steps": number,
        "load": load,
        "first step of all, s": first,
        "all steps, s": took,
        "steps a second, with the start": number / took,
        **{f"processor ms of a step, {_shown(name)}": each for name, each in spent.items()},
        **{f"memory MiB, {_shown(name)}": size / 2**20 for name, size in after.rss.items()},
    }


def _shown(process: str) -> str:
    return "supervisor" if process == "run" else process

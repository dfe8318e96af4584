"""The command `conch run` and its options."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, warn
from conch.cli.options import COMMON
from conch.cli.programs import refuse_of_agent
from conch.cli.run.agents import names_of
from conch.cli.run.tree import AGENT, ProcessTree, first_children
from conch.config import chosen_file
from conch.errors import UsageError
from conch.log import get_logger
from conch.processes import forked
from conch.telemetry import configure
from conch.trusted import refuse_writable, without_writable_programs

log = get_logger(__name__)

OPEN_FILES = 48
"""Files that each process of a run has to be able to open: with 32 the sandbox cannot be made."""
MANY_FILES = 4096
"""The limit of open files is raised to this, where that is allowed: the files of many agents are open."""


def run(
    *,
    common: CommonOptions = COMMON,
    agents: Annotated[
        int | None, Parameter(help="So many agents in one process, each with a workspace of its own.")
    ] = None,
    workspace: Annotated[Path | None, Parameter(help="Directory the agent works in.")] = None,
    cycles: Annotated[int | None, Parameter(help="End after so many more cycles, all recorded.")] = None,
    interval: Annotated[float | None, Parameter(help="Seconds from one cycle to the next.")] = None,
    mind: Annotated[str | None, Parameter(help="reflex, openai, local or scripted.")] = None,
    script: Annotated[Path | None, Parameter(help="File of replies for the scripted mind.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed of everything that is drawn.")] = None,
    rules: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=True, help="Python file of @rule and @consumer plug-ins; several, and repeatable."),
    ] = None,
    reload: Annotated[bool, Parameter(negative="", help="Take up changes of the --rules files while it runs.")] = False,
    without: Annotated[
        list[str] | None, Parameter(help="Consumers not to run here, by name, separated by commas; agent: no agent.")
    ] = None,
    ui_port: Annotated[int | None, Parameter(help="TCP port of the dashboard; without it 26624, or any.")] = None,
    metrics_port: Annotated[int | None, Parameter(help="TCP port of /metrics; without it 9464, or a free one.")] = None,
) -> None:
    """Run the agent: it thinks, acts, is scored and learns, until Ctrl-C (or for --cycles).

    --without agent runs bus, consumers, store and page alone, for programs that act by `conch.agent`.
    """
    skipped = _skipped(without or ())
    if AGENT in skipped:
        asked = {
            "--agents": agents,
            "--workspace": workspace,
            "--cycles": cycles,
            "--interval": interval,
            "--mind": mind,
            "--script": script,
            "--seed": seed,
        }
        refuse_of_agent([option for option, value in asked.items() if value is not None])
    if cycles is not None and cycles < 1:
        raise UsageError(f"--cycles {cycles}: at least 1")
    if reload and not rules:
        raise UsageError("--reload looks after the files of --rules: name one")
    settings = common.settings(
        {
            "workspace": str(workspace.expanduser().absolute()) if workspace is not None else None,
            "cycle": {"interval": interval},
            "mind": {
                "kind": mind or ("scripted" if script is not None else None),
                "script": str(script) if script is not None else None,
            },
            "seed": seed,
            "ui": {"port": ui_port},
            "metrics": {"port": metrics_port},
        }
    )
    names = names_of(settings.agent, agents)
    _fit()
    home = common.where()
    files = [str(rule) for rule in rules or ()]
    refuse_writable(home, settings, chosen_file(common.config, home), files)
    os.environ["PATH"] = without_writable_programs(home, settings, os.environ.get("PATH", os.defpath))
    with forked(first_children(settings, skipped)) as forks, home.owned():
        configure(settings.log, home.logs / "run.log", process="run")
        if (closed := home.close_to_others()) is not None:
            log.warning("home.open", reason=closed)
            warn(closed)
        running = ProcessTree(
            home,
            settings,
            names,
            cycles,
            files,
            skipped,
            reloads=reload,
            as_json=common.json,
            forks=forks,
        )
        try:
            asyncio.run(running.live(common))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None  # asked twice, or before anything was there to be ended in order


def _fit() -> None:
    """Raise a low limit of open files, for this process and its children. Raises UsageError where that may not be, and
    where there is no /proc on Linux."""
    if sys.platform == "linux" and not Path("/proc/self").exists():
        raise UsageError("/proc is not mounted, a run looks after its processes there: mount it")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= MANY_FILES:
        return
    most = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
    if most < OPEN_FILES:
        raise UsageError(f"a process may open {most} files here (ulimit -n), a run needs {OPEN_FILES}: raise the limit")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _skipped(without: Sequence[str]) -> frozenset[str]:
    return frozenset(name.strip() for names in without for name in names.split(",") if name.strip())

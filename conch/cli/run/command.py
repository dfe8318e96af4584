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

from conch.cli.common import CommonOptions, owned_soon, warn
from conch.cli.options import COMMON
from conch.cli.programs import AGENT, refuse_of_agent
from conch.cli.run.agents import names_of
from conch.cli.run.tree import ProcessTree, first_children
from conch.cli.team import known_team
from conch.config import Masker, Settings, chosen_file
from conch.errors import ConchError, UsageError
from conch.home import Home
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
    team: Annotated[str | None, Parameter(help="Run the team of this name; with --agents so many teams.")] = None,
    agents: Annotated[int | None, Parameter(help="So many agents, each with a workspace of its own.")] = None,
    processes: Annotated[int | None, Parameter(help="Processes over which the agents are spread.")] = None,
    workspace: Annotated[Path | None, Parameter(help="Directory the agent works in.")] = None,
    cycles: Annotated[int | None, Parameter(help="End after so many more cycles, all recorded.")] = None,
    interval: Annotated[float | None, Parameter(help="Seconds from one cycle to the next.")] = None,
    mind: Annotated[
        str | None, Parameter(help="reflex, openai, local, transformers, scripted, or a package's.")
    ] = None,
    model: Annotated[
        str | None, Parameter(help="Name at the endpoint, or of local and transformers file or folder.")
    ] = None,
    script: Annotated[Path | None, Parameter(help="File of replies for the scripted mind.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed of everything that is drawn.")] = None,
    rules: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=True, help="Python file of @rule and @consumer plug-ins; several, and repeatable."),
    ] = None,
    reload: Annotated[bool, Parameter(negative="", help="Take up changes of the --rules files while it runs.")] = False,
    tools: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=True, help="Python file of @tool functions, in place of tools.files; several."),
    ] = None,
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
            "--team": team,
            "--agents": agents,
            "--processes": processes,
            "--workspace": workspace,
            "--cycles": cycles,
            "--interval": interval,
            "--mind": mind,
            "--model": model,
            "--script": script,
            "--seed": seed,
            "--tools": tools,
        }
        refuse_of_agent([option for option, value in asked.items() if value is not None])
    if reload and not rules:
        raise UsageError("--reload looks after the files of --rules: name one")
    settings = common.settings(
        of_agents(workspace, interval, processes, mind, script, seed, model)
        | {"ui": {"port": ui_port}, "metrics": {"port": metrics_port}}
        | {"tools": {"files": [str(file.expanduser().absolute()) for file in tools] if tools else None}}
    )
    if team is not None:
        known_team(settings, team)
    names = names_of(team or settings.agent, agents, settings.cycle.processes)
    launch(
        common,
        settings,
        names,
        processes=0 if AGENT in skipped else processes_for(len(names), processes, settings),
        cycles=cycles,
        rules=rules or (),
        skipped=skipped - {AGENT},
        reload=reload,
    )


def of_agents(
    workspace: Path | None,
    interval: float | None,
    processes: int | None,
    mind: str | None,
    script: Path | None,
    seed: int | None,
    model: str | None = None,
) -> dict[str, object]:
    """The settings of the options that concern the agents; None: not given."""
    return {
        "workspace": str(workspace.expanduser().absolute()) if workspace is not None else None,
        "cycle": {"interval": interval, "processes": processes},
        "mind": {
            "kind": mind or ("scripted" if script is not None else None),
            "model": model,
            "script": str(script) if script is not None else None,
        },
        "seed": seed,
    }


def processes_for(agents: int, asked: int | None, settings: Settings) -> int:
    """Agent processes for so many agents. `asked`: by --processes. Raises UsageError where that is more than agents;
    where the settings alone say more, each agent has a process."""
    if asked is not None and asked > agents:
        raise UsageError(f"--processes {asked}: more than the {agents} of --agents, and an agent acts in one process")
    return min(settings.cycle.processes, agents)


def launch(
    common: CommonOptions,
    settings: Settings,
    names: Sequence[str],
    *,
    processes: int,
    cycles: int | None,
    rules: Sequence[Path],
    skipped: frozenset[str] = frozenset(),
    reload: bool = False,
    has_consumers: bool = True,
) -> None:
    """Run the agents of these names in so many processes, to the end. `has_consumers`: see `ProcessTree`."""
    if cycles is not None and cycles < 1:
        raise UsageError(f"--cycles {cycles}: at least 1")
    _fit()
    home = common.where()
    files = [str(rule) for rule in rules]
    refuse_writable(home, settings, chosen_file(common.config, home), files)
    os.environ["PATH"] = without_writable_programs(home, settings, os.environ.get("PATH", os.defpath))
    children = first_children(settings, skipped, processes, has_consumers=has_consumers)
    with forked(children) as forks, owned_soon(home):
        home.name_version()
        configure(settings.log, home.logs / "run.log", process="run", mask=Masker.of(settings).text)
        if (closed := home.close_to_others()) is not None:
            log.warning("home.open", reason=closed)
            warn(closed)
        _forget(common, home, settings, begins=True)
        running = ProcessTree(
            home,
            settings,
            names,
            cycles,
            files,
            skipped,
            processes=processes,
            reloads=reload,
            as_json=common.json,
            forks=forks,
            has_consumers=has_consumers,
        )
        try:
            asyncio.run(running.live(common))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None  # asked twice, or before anything was there to be ended in order
        if not running.begins_anew:
            _forget(common, home, settings)
    if running.begins_anew:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very command, once more


def _forget(common: CommonOptions, home: Home, settings: Settings, *, begins: bool = False) -> None:
    """Carry out what a person asked to be forgotten, where a request waits or was cut short. `begins`: the run can
    begin before that, unless a part of it was done."""
    if not home.forget_file.exists():
        return
    from conch.cli.forget import carry_out, words_of
    from conch.forgetting import read_request

    try:
        if (report := asyncio.run(carry_out(common, settings))) is not None:
            warn(words_of(report))
    except ConchError as error:
        request = read_request(home)
        if not begins or request is None or request.plan is not None:
            raise
        warn(f"what was asked to be forgotten waits for the end of this run: {error}")


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

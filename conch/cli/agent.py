"""`conch agent run`: agents on this machine, on the bus of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions
from conch.cli.options import COMMON
from conch.cli.run.agents import names_in_range
from conch.cli.run.command import launch, of_agents, processes_for
from conch.errors import UsageError

app = App(name="agent", help="Agents of this machine, on the bus of another one.")


@app.command
def run(
    *,
    agents: Annotated[str, Parameter(help="Numbers of the agents, FIRST..LAST: 11..20 runs ten.")],
    processes: Annotated[int | None, Parameter(help="Processes over which the agents are spread.")] = None,
    workspace: Annotated[Path | None, Parameter(help="Directory that holds the agents' workspaces.")] = None,
    cycles: Annotated[int | None, Parameter(help="End after so many more cycles, all recorded.")] = None,
    interval: Annotated[float | None, Parameter(help="Seconds from one cycle to the next.")] = None,
    mind: Annotated[
        str | None, Parameter(help="reflex, openai, local, transformers, scripted, or a package's.")
    ] = None,
    script: Annotated[Path | None, Parameter(help="File of replies for the scripted mind.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed of everything that is drawn.")] = None,
    rules: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=True, help="The rule files of the run with the consumers: their weights."),
    ] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Run agents on the bus at bus.url until Ctrl-C (or for --cycles); consumers elsewhere score what they do.

    Their ids, notes and workspaces are in this home (--home), which runs nothing else meanwhile. An agent acts in one
    run at a time: a second one is refused.
    """
    settings = common.settings(of_agents(workspace, interval, processes, mind, script, seed))
    if settings.bus.url is None:
        raise UsageError("conch agent run needs a bus that is there: set bus.url (CONCH_BUS__URL=nats://…)")
    names = names_in_range(settings.agent, agents, settings.cycle.processes)
    launch(
        common,
        settings,
        names,
        processes=processes_for(len(names), processes, settings),
        cycles=cycles,
        rules=rules or (),
        has_consumers=False,
    )

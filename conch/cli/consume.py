"""`conch consume`: one consumer alone, on any machine that reaches the bus."""

from __future__ import annotations

import asyncio
import difflib
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.bus import feeding
from conch.cli.common import Common, open_bus, say, warn
from conch.cli.facts import names_in
from conch.cli.options import COMMON
from conch.cli.workers import run_workers
from conch.config import BUILTIN_WEIGHTS, Settings
from conch.consumer.discover import Plugin, builtin_names, discover
from conch.consumer.members import joined
from conch.consumer.place import PARTITIONS
from conch.consumer.process import builtin, host_until, plugin, weighed
from conch.consumer.service import ServiceContext
from conch.errors import UsageError
from conch.home import Home
from conch.process import run_loop


def consume(
    name: str,
    /,
    *,
    rules: Annotated[list[Path] | None, Parameter(help="Python file of plug-ins; repeatable.")] = None,
    workers: Annotated[int, Parameter(validator=Number(gte=1, lte=PARTITIONS), help="Processes that share it.")] = 1,
    common: Common = COMMON,
) -> None:
    """Run the consumer NAME until Ctrl-C, on the bus of the run in progress, of bus.url, or of this home.

    Whoever runs the same consumer on the same bus, here or elsewhere, shares the agents with it.
    """
    from conch.telemetry import configure

    home, settings = common.where(), common.settings()
    found = discover([str(rule) for rule in rules or ()], taken={*builtin_names(), *BUILTIN_WEIGHTS})
    for broken in found.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    plugins = {known: one for one in found.plugins for known in _names(one)}
    if name not in plugins and name not in builtin_names():
        known = sorted({*plugins, *builtin_names()})
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise UsageError(f"there is no consumer {name}; the nearest name is {near[0]} (--rules names plug-ins)")
    configure(settings.log, None, process=name)
    if workers > 1:
        if home.running() is None and settings.bus.url is None:
            raise UsageError("--workers needs a bus that is there for all of them: start conch run, or set bus.url")
        run_workers(name, workers, common, rules or ())
    else:
        run_loop(_alone(home, settings, name, plugins.get(name)))


def _names(one: Plugin) -> tuple[str, ...]:
    return (one.name, f"rule-{one.name}") if one.kind == "rule" else (one.name,)


def _report(**line: str) -> None:
    """What a service waits for outside."""
    if line["waits"]:
        warn(f"{line['consumer']} waits: {line['waits']}")


async def _alone(home: Home, settings: Settings, name: str, found: Plugin | None) -> None:
    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    context = ServiceContext(settings, home.path, _report)
    async with (
        open_bus(home, settings) as bus,
        feeding(bus) as feed,
        joined(bus, [name]) as members,
        AsyncExitStack() as stack,
    ):
        if found is not None:
            running = [plugin(found, context, members, stack, begin=await weighed(bus, names_in(home, settings)[0]))]
        else:
            running = builtin(context, [name], members)
        say(f"{running[0].name} reads; Ctrl-C ends it")
        await host_until(feed, running, stop, lambda **line: warn(str(line)))
    if running[0].down:
        raise UsageError(running[0].down)

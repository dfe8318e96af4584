"""`conch consume`: run one consumer as a worker, on any machine that reaches the bus."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.bus import PARTITIONS, Bus, shared_subscription
from conch.cli.common import CommonOptions, open_bus, say, warn
from conch.cli.options import COMMON
from conch.cli.people_facts import names_in
from conch.cli.run.describe import for_plugins
from conch.cli.run.prepare import claim
from conch.cli.workers import run_workers
from conch.config import chosen_file
from conch.config.model import HOST_AND_PORT, host_and_port
from conch.consumer import HostedConsumer, ServiceContext, builtin, host, introduce, plugin
from conch.consumer.group import joined
from conch.consumer.operations import HttpRequest, HttpResponse, HttpServer, health_of, listen
from conch.consumer.plugins import ConsumerInfo, Plugin, builtin_plugins, builtin_services, discover, reserved, weighed
from conch.errors import ConchError, UsageError
from conch.experience import store_location
from conch.home import Home
from conch.metrics import PLUGIN_METRICS
from conch.processes import GRACE_SECONDS, messages, run_loop
from conch.python_child import environment
from conch.tasks import background
from conch.text import instead
from conch.trusted import refuse_writable, without_writable_programs

Health = Annotated[str | None, Parameter(help="HOST:PORT that answers /healthz and /readyz.")]


def consume(
    name: str,
    /,
    *,
    rules: Annotated[list[Path] | None, Parameter(help="Python file of plug-ins; repeatable.")] = None,
    workers: Annotated[int, Parameter(validator=Number(gte=1, lte=PARTITIONS), help="Processes that share it.")] = 1,
    worker: Annotated[str | None, Parameter(show=False)] = None,
    health: Health = None,
    common: CommonOptions = COMMON,
) -> None:
    """Run the consumer NAME until Ctrl-C, on the bus of the run in progress, of bus.url, or of this home.

    Whoever runs the same consumer on the same bus, here or elsewhere, shares the agents with it.
    """
    from conch.config import Masker
    from conch.telemetry import configure

    address = _address(health) if health is not None else None
    if address is not None and workers > 1:
        raise UsageError("--health tells of one process: run it without --workers, as often as you need it")

    home, settings = common.where(), common.settings()
    files = [str(rule) for rule in rules or ()]
    refuse_writable(home, settings, chosen_file(common.config, home), files)
    os.environ["PATH"] = without_writable_programs(home, settings, os.environ.get("PATH", os.defpath))
    found = discover(files, reserved(settings), settings)
    for broken in found.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    plugins = {known: one for one in found.plugins for known in _names(one)}
    known = plugins | builtin_plugins(settings)
    if name not in known:
        there = instead(name, known)
        raise UsageError(f"there is no consumer {name}; {there} (--rules names plug-ins)")
    configure(settings.log, None, process=name, mask=Masker.of(settings).text)
    context, running = ServiceContext(settings, home.path, _report), home.running()
    if name not in plugins:
        builtin_services([name])[name](context)  # reports missing settings before connecting to the bus
    one = known[name]
    store = store_location(settings.store.url, home.path)
    if isinstance(one, ConsumerInfo) and one.is_service and not (name == "store" and store.is_shared):
        if running is not None and name in running.consumers and one.keeps_position:
            raise UsageError(
                f"the run in progress has {name}, which is not shared: conch run --without {name}, then again"
            )
        if workers > 1:
            shared = ", or keep the experiences in PostgreSQL (store.url)" if name == "store" else ""
            raise UsageError(f"{name} keeps its place by itself and is not shared: run it without --workers{shared}")
    if workers > 1:
        if running is None and settings.bus.url is None:
            raise UsageError("--workers needs a bus that is there for all of them: start conch run, or set bus.url")
        run_workers(name, workers, common, rules or ())
    else:
        run_loop(_alone(name, home, context, plugins.get(name), worker, address))


def _names(one: Plugin) -> tuple[str, ...]:
    return (one.name, one.consumer)


def _report(report: messages.ConsumerReport) -> None:
    """Print what the consumer waits for outside, its errors, and its address."""
    match report:
        case messages.PageServed():
            say(f"page {report.url} (conch ui --link prints a way in)")
        case messages.MetricsServed():
            say(f"metrics {report.url}")
        case messages.ConsumerWaits() if report.why:
            warn(f"{report.consumer} waits: {report.why}")
        case messages.ConsumerNote():
            warn(f"! {report.consumer}: {report.note}")
        case messages.ConsumerFailing():
            how = f"fails at every event: {report.why}" if report.why else "handles events again"
            warn(f"{report.consumer} {how}")
        case messages.ConsumerBroke():
            warn(f"{report.consumer} broke and is started again: {report.why}")


async def _alone(
    name: str,
    home: Home,
    context: ServiceContext,
    found: Plugin | None,
    worker: str | None,
    address: tuple[str, int] | None,
) -> None:
    """`worker`: the id under which it owns partitions; `address`: where its health check is served.

    Raises ConchError where it did not end in order, or where the address is in use.
    """
    stop, own = asyncio.Event(), asyncio.current_task()
    assert own is not None
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, _asked_to_stop, stop, own)
    settings = context.settings
    bus: Bus | None = None
    running: HostedConsumer | None = None

    def ready() -> bool:
        return bus is not None and bus.connected and running is not None and running.up

    try:
        async with (
            _told(address, ready, is_plugin=found is not None),
            open_bus(home, settings) as bus,
            AsyncExitStack() as stack,
        ):
            if name == "store":
                store = store_location(settings.store.url, home.path)
                await claim(bus, home.agentuid(settings.agent), [name], settings.bus.url or "", store)
            shared_events = await stack.enter_async_context(shared_subscription(bus))
            members = await stack.enter_async_context(joined(bus, [name], worker))
            begin = await weighed(bus, names_in(home, settings)[0])
            context = replace(context, begin=begin)
            if found is not None:
                kept = environment()
                os.environ.clear()
                os.environ.update(kept)  # a plug-in consumer runs in this process
                context = replace(context, settings=for_plugins(settings))
                running = plugin(found, context, members, stack, begin=begin)
            else:
                [running] = builtin(context, [name], members)
            say(f"{running.name} reads; Ctrl-C ends it")
            async with background(introduce([running], _report), name="conch.introduce"):
                await host(shared_events, [running], stop, _report)
    except asyncio.CancelledError:
        raise ConchError(f"{name} was ended with work in hand, which is done again when {name} runs next") from None
    if running.down:
        raise UsageError(running.down)


def _address(text: str) -> tuple[str, int]:
    try:
        if re.fullmatch(HOST_AND_PORT, text):
            return host_and_port(text)
    except ValueError:  # a port that there cannot be
        pass
    raise UsageError(f"--health {text} is no HOST:PORT, as 127.0.0.1:8080 is, or 0.0.0.0:8080 for other machines, too")


@asynccontextmanager
async def _told(address: tuple[str, int] | None, ready: Callable[[], bool], *, is_plugin: bool) -> AsyncIterator[None]:
    """While entered, requests at `address` are answered: whether the process lives, whether it is ready, and of a
    plug-in the metrics that it publishes."""
    if address is None:
        yield
        return

    async def answer(request: HttpRequest) -> HttpResponse:
        if request.path == "/metrics" and is_plugin:
            from conch.metrics import CONTENT_TYPES, exposition, wants_openmetrics

            is_open = wants_openmetrics(request.accept)
            text = await asyncio.to_thread(exposition, PLUGIN_METRICS, openmetrics=is_open)
            return HttpResponse(text, type=CONTENT_TYPES[is_open])
        return health_of(request.path, ready()) or HttpResponse(b"there are /healthz and /readyz\n", 404)

    listening = listen(*address, "name another one (--health)")
    async with HttpServer(listening, answer, named=address[0]) as endpoint:
        say(f"health at {endpoint.address}/healthz and {endpoint.address}/readyz")
        yield


def _asked_to_stop(stop: asyncio.Event, task: asyncio.Task[None]) -> None:
    """The first time in order, within GRACE_SECONDS; the second time at once."""
    if stop.is_set():
        task.cancel()
    else:
        asyncio.get_running_loop().call_later(GRACE_SECONDS, task.cancel)
        stop.set()

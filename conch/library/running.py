"""Run consumers, or a whole agent, in this process, on a bus that exists already (`conch run` uses several
processes)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conch.bus import Bus, shared_subscription
from conch.config import Settings, load
from conch.consumer import (
    ConsumerDeclaration,
    ConsumerSpec,
    HostedConsumer,
    ServiceContext,
    bind,
    builtin,
    host,
    plugin,
    spec_of,
)
from conch.consumer.group import Membership, SharedConsumer, joined, own_name
from conch.consumer.operations import keep_trimmed
from conch.consumer.plugins import wanted_builtin, weighed
from conch.cycle.hosting.factory import AgentFactory
from conch.cycle.hosting.host import AgentHost
from conch.errors import ConchError, ContractError
from conch.experience import store_location
from conch.home import Home
from conch.library.preparing import Order, agent_spec, logged, prepare
from conch.library.runs import AgentRun, Run
from conch.minds import Mind, ScriptedMind, ScriptLine
from conch.processes import ConsumerDown, ConsumerReport

Consumer = Callable[..., Any]
"""A function that `@consumer` declares."""

OUTWARD = frozenset({"metrics", "dashboard", "otel", "mqtt", "devices"})
"""Built-in consumers that a program does not run: they listen on ports or reach out, which is `conch run`'s task."""
OWN_SPEED = Settings.model_validate({"cycle": {"interval": 0}})
"""Settings of a run without a home: a cycle follows the one before at once."""


@asynccontextmanager
async def consuming(bus: Bus, *consumers: Consumer) -> AsyncIterator[Run]:
    """Run consumers on `bus` while entered, as `conch consume` does: durable, retried, with dead letters.

    `consumers`: functions that `@consumer` declares. Each reads the stream from where it stopped, or from its start.
    Left, they finish what is in hand and store their positions. Cancelled, or left with an error, they end at once: the
    next run repeats what was not stored, with the same ids.

    Raises ContractError for a function that is no consumer, the error of a consumer that stays down (it broke five
    times in a minute, its state cannot be read), BusError when the bus refuses for good; the block is cancelled then.

    ```python
    import conch
    from conch.testing import make_action_taken
    from conch_schemas import ActionTaken, RewardAssigned, Score


    @conch.consumer(ActionTaken, name="joy", version="1")
    def joy(action: ActionTaken) -> RewardAssigned:
        score = Score(component="joy", value=1.0, range=(0, 1), status="scored", scorer="joy", version="1")
        return conch.follow(action, RewardAssigned, consumer="joy", version="1", scorer="joy", scores=(score,))


    async with conch.local_bus("server") as bus:  # on JetStream; conch.MemoryBus() is the same in memory
        await conch.publish(bus, make_action_taken())
        async with conch.consuming(bus, joy) as run:
            await run.handled()
            async for reward in conch.subscribe(bus, RewardAssigned, after=0):
                assert reward.scores[0].value == 1.0
                break
    ```
    """
    began = (await bus.state()).last
    async with AsyncExitStack() as stack:
        context = ServiceContext(OWN_SPEED, Path(stack.enter_context(_temporary())), logged)
        specs = [_spec(consumer, context) for consumer in consumers]
        shared_events = await stack.enter_async_context(shared_subscription(bus))
        workers = await stack.enter_async_context(joined(bus, [spec.name for spec in specs], _worker()))
        scoring = _shared(specs, workers)
        async with _group() as group:
            stop = asyncio.Event()
            group.create_task(host(shared_events, scoring, stop, _refuse_down), name="conch.consumers")
            yield Run(bus, began, scoring)
            stop.set()


@asynccontextmanager
async def running(
    bus: Bus,
    *,
    agent: str | None = None,
    mind: Mind | Sequence[str] | None = None,
    cycles: int | None = None,
    consumers: Sequence[Consumer] = (),
    rules: Sequence[Path | str] = (),
    home: Path | str | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[AgentRun]:
    """Run a whole agent on `bus` while entered: its cycle, the built-in consumers that score it, and the store.

    `agent`: its name; None: that of the settings. `mind`: what thinks and decides: a `Mind`, which is closed at the
    end, or the replies of a script (the agent ends with the last one); None: the settings' (the reflex mind).
    `cycles`: the agent ends after so many more; None: when it is left. `consumers`: functions that `@consumer`
    declares, run in this process. `rules`: files of `@rule`, which run in processes of their own and have their weight
    in the total, as with `conch run --rules`. `home`: its directory, made where there is none and owned while entered;
    None: a directory for this run alone, with an empty workspace. Name a home for a bus that outlives the run: its
    stream belongs to the agent of that home. `settings`: None: those of the home and the environment; without a home,
    the defaults with `cycle.interval` 0. The dashboard, `/metrics`, MQTT and traces are left to `conch run`.

    Left, the agent finishes its cycle, then the consumers what is in hand; `await run.finished()` before that waits for
    the end. Cancelled, or left with an error, they end at once, and the next run of that home finishes the cycle.

    Raises HomeBusyError for a home that another process uses, ConfigError for settings, ContractError for a consumer or
    a rule that cannot be loaded, BusError where the stream is another home's; and any error that ends the agent, a
    consumer or the store: the block is cancelled then.

    ```python
    import conch
    from conch_schemas import ActionTaken, ExperienceRecorded

    async with conch.MemoryBus() as bus:
        async with conch.running(bus, agent="echo", cycles=3) as run:
            async for act in run.events(ActionTaken):
                print(act.cycle, act.action.skill, act.outcome.status)
            totals = [event.total async for event in run.events(ExperienceRecorded)]
    assert len(totals) == 3
    ```
    """
    async with AsyncExitStack() as stack:
        place = Home.at(home) if home is not None else Home(Path(stack.enter_context(_temporary())))
        stack.enter_context(place.owned())
        place.name_version()
        given = settings or (load(None, place, {}) if home is not None else OWN_SPEED)
        given = given.model_copy(update={"agent": agent}) if agent is not None else given
        prepared = await prepare(bus, place, given, [str(rule) for rule in rules])
        begin = await weighed(bus, given.agent)
        context = ServiceContext(given, place.path, logged, begin, prepared.began)
        own = [_spec(consumer, context) for consumer in consumers]
        names = wanted_builtin(given, OUTWARD)
        plugins = prepared.found.plugins
        shared_events = await stack.enter_async_context(shared_subscription(bus))
        known = [*names, *(one.consumer for one in plugins), *(spec.name for spec in own)]
        workers = await stack.enter_async_context(joined(bus, known, _worker()))
        scoring = builtin(context, names, workers) + _shared(own, workers)
        scoring += [plugin(one, context, workers, stack, begin=begin) for one in plugins]
        order = Order(agent_spec(prepared, place, given, cycles), given, place.path)
        agents = await stack.enter_async_context(AgentFactory(order, shared_events, _mind(mind)))
        async with _group() as group:
            stop = asyncio.Event()
            run = AgentRun(bus, prepared.began, scoring, given.agent, place.path)
            acting = group.create_task(AgentHost(shared_events, agents.agent_runner).run(), name="conch.agent")
            group.create_task(host(shared_events, scoring, stop, _refuse_down), name="conch.consumers")
            trimming = keep_trimmed(bus, given.bus.keep, store_location(given.store.url, place.path))
            beside = [
                group.create_task(trimming, name="conch.keep"),
                group.create_task(run.follow(acting), name="conch.finish"),
            ]
            yield run
            for task in beside:
                task.cancel()
            for one in agents.agent_runner:
                one.control.stop()
            await asyncio.wait([acting])
            stop.set()


@contextmanager
def _temporary() -> Iterator[str]:
    with TemporaryDirectory(prefix="conch-", ignore_cleanup_errors=True) as directory:
        yield directory


def _mind(mind: Mind | Sequence[str] | None) -> Mind | None:
    if isinstance(mind, str):
        raise ContractError("mind is a text: give the replies of a script as a list")
    if mind is None or not isinstance(mind, Sequence):
        return mind
    return ScriptedMind(Path("replies"), lines=tuple(map(ScriptLine, mind)))


def _spec(consumer: Consumer, context: ServiceContext) -> ConsumerSpec:
    if not isinstance(spec_of(consumer), ConsumerDeclaration):
        name = getattr(consumer, "__name__", repr(consumer)[:80])
        raise ContractError(f"{name} is no consumer: declare it with @consumer(...); a rule is run from its file")
    return bind(consumer, context)


def _shared(specs: Sequence[ConsumerSpec], workers: Membership) -> list[HostedConsumer]:
    return [HostedConsumer(spec.name, partial(SharedConsumer, spec, workers)) for spec in specs]


@asynccontextmanager
async def _group() -> AsyncIterator[asyncio.TaskGroup]:
    """A TaskGroup of which a single error comes out as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        if len(failed.exceptions) > 1:
            raise
        raise failed.exceptions[0] from None


def _worker() -> str:
    """A name of its own for each run: two of one process must not take each other's partitions for theirs."""
    return f"{own_name()}-{secrets.token_hex(3)}"


def _refuse_down(report: ConsumerReport) -> None:
    """A consumer that stays down ends the run: a program has no `conch status` that would report it."""
    if isinstance(report, ConsumerDown):
        raise ConchError(f"consumer {report.consumer} stays down: {report.why}")
    logged(report)

"""The consumers' process: `python -m conch.consumer.process`, started by the supervisor; and what runs in it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog

from conch.bus import Bus, Feed, feeding
from conch.bus.jetstream import JetStreamBus
from conch.consumer.discover import Plugin, builtin_services, load_one
from conch.consumer.members import Members, joined
from conch.consumer.retention import keep_trimmed
from conch.consumer.rule import RuleWorker, rule_consumer
from conch.consumer.service import Exporter, Service, ServiceContext
from conch.consumer.share import SharedConsumer
from conch.consumer.spec import ConsumerSpec
from conch.errors import ConchError, ConfigError, ContractError, FencedError
from conch.experience import store_path
from conch.process import Child, innermost, run_child
from conch_schemas import STREAM_SUBJECTS, WeightsSet, subject_filter

log = structlog.get_logger(__name__)

SWITCH_SECONDS = 0.0005
"""Time that a thread may keep the interpreter: with Python's 5 ms the store's waits longer for it than for the disk."""
POLL_SECONDS = 0.02
FEW = 16
"""Agents that are named to the server; of more, everybody's events count."""
BACKOFF = (0.1, 0.5, 2.0, 5.0)
"""Seconds before a consumer that broke is started again."""


@dataclass
class Running:
    """One consumer of this process."""

    name: str
    make: Callable[[], Service]
    now: Service | None = None
    down: str = ""
    """Why it was left down."""


async def host(feed: Feed, running: Sequence[Running], stop: asyncio.Event, report: Callable[..., None]) -> None:
    """Run consumers side by side until `stop`. One that breaks is started again with back-off and harms no other.

    One that was taken over, whose state cannot be read, or that cannot be made of its settings, is left down and
    reported. A ConchError of another kind (the store's file is damaged) is fatal: it is raised.
    """
    async with asyncio.TaskGroup() as group:
        for one in running:
            group.create_task(_keep(feed, one, stop, report), name=f"conch.{one.name}")


async def _keep(feed: Feed, one: Running, stop: asyncio.Event, report: Callable[..., None]) -> None:
    failures = 0
    while not stop.is_set():
        try:
            one.now = one.make()
            await one.now.run(feed, stop)
            return
        except (FencedError, ContractError, ConfigError) as error:
            one.down = str(error)
            log.error("consumer.down", consumer=one.name, why=one.down)
            report(consumer=one.name, down=one.down)
            return
        except ConchError:
            raise
        except Exception as error:
            log.exception("consumer.broke", consumer=one.name)
            report(consumer=one.name, broke=f"{type(error).__name__}: {error}")
            await asyncio.sleep(BACKOFF[min(failures, len(BACKOFF) - 1)])
            failures += 1


async def quiet(bus: Bus, running: Sequence[Running], agents: Sequence[str] = ()) -> None:
    """Until everything on the stream is handled by all of these, and nothing waits for a deadline.

    `agents`: whose events alone count, where others go on with theirs; none: everybody's.
    """
    theirs = [f"conch.v1.{agent}.>" for agent in agents] if 0 < len(agents) <= FEW else STREAM_SUBJECTS
    while True:
        last = (await bus.state()).last
        while not all(one.down or _is_done(one, last) for one in running):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(POLL_SECONDS)
        if not await _is_behind(bus, theirs, last):
            return


async def _is_behind(bus: Bus, theirs: Sequence[str], last: int) -> bool:
    """Whether there is anything of theirs behind `last`."""
    async for _ in bus.read(theirs, after=last):
        return True
    return False


def _is_done(one: Running, last: int) -> bool:
    if one.now is None:
        return False
    if (handled := one.now.handled) is None:
        return True
    return handled >= last and not one.now.busy


def builtin(context: ServiceContext, names: Sequence[str], members: Members) -> list[Running]:
    """The consumers that come with Conch, of these names."""
    found = builtin_services(names)
    return [Running(name, _maker(found[name], context, members)) for name in names]


def _maker(factory: Callable[..., Any], context: ServiceContext, members: Members) -> Callable[[], Service]:
    def make() -> Service:
        made = factory(context)
        return SharedConsumer(made, members) if isinstance(made, ConsumerSpec) else made

    return make


async def weighed(bus: Bus, agent: str) -> int:
    """Where the weight set in force stands in the stream, 0 where there is none: a new rule scores from there on."""
    found = await bus.last(subject_filter(WeightsSet, agent))
    return found.seq if found is not None else 0


def plugin(
    plugin: Plugin, context: ServiceContext, members: Members, stack: AsyncExitStack, *, begin: int = 0
) -> Running:
    """A plug-in: a rule scores in a process of its own, a consumer runs in this one."""
    if plugin.kind == "rule":
        rewards = context.settings.rewards
        timeout, memory = rewards.rule_timeout, rewards.rule_memory_mib
        spec, worker = rule_consumer(plugin, timeout=timeout, memory_mib=memory, begin=begin)
        stack.push_async_callback(RuleWorker.close, worker)
    else:
        loaded = load_one(plugin.origin, plugin.name)
        assert isinstance(loaded, ConsumerSpec)
        spec = loaded
    return Running(spec.name, lambda: SharedConsumer(spec, members))


async def live(child: Child) -> None:
    """The consumers that the spec names, until told to stop; `finish` stops them once everything is handled."""
    sys.setswitchinterval(SWITCH_SECONDS)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    finish = asyncio.Event()
    child.on("stop", stop.set)
    child.on("finish", finish.set)
    async with (
        JetStreamBus(child.access, name=child.spec["name"], strict=child.strict) as bus,
        feeding(bus) as feed,
        joined(bus, _names(child), _worker(child)) as members,
        AsyncExitStack() as stack,
    ):
        begin = await weighed(bus, child.spec["agents"][0])
        context = ServiceContext(child.settings, child.home, child.report, begin)
        running = builtin(context, child.spec["builtin"], members)
        for described in child.spec["plugins"]:
            running.append(plugin(Plugin(**described), context, members, stack, begin=begin))
        beside = [
            asyncio.create_task(_finish(bus, running, child.spec["agents"], finish, stop), name="conch.finish"),
            asyncio.create_task(_introduce(running, child.report), name="conch.introduce"),
        ]
        if child.spec["keeps"]:
            keeping = keep_trimmed(bus, child.settings.bus.keep, store_path(child.settings.store.url, child.home))
            beside.append(asyncio.create_task(keeping, name="conch.keep"))
        try:
            await host_until(feed, running, stop, child.report)
        finally:
            for task in beside:
                task.cancel()


def _names(child: Child) -> list[str]:
    """What runs here, as the others know it."""
    plugins = [Plugin(**described) for described in child.spec["plugins"]]
    return [*child.spec["builtin"], *(f"rule-{one.name}" if one.kind == "rule" else one.name for one in plugins)]


def _worker(child: Child) -> str:
    """The same name whenever this process of this home is started: what it held before is its own again at once."""
    place = uuid.uuid5(uuid.NAMESPACE_URL, f"{socket.gethostname()}{child.home.resolve()}")
    return f"{child.spec['name']}-{place.hex[:8]}"


async def host_until(feed: Feed, running: Sequence[Running], stop: asyncio.Event, report: Callable[..., None]) -> None:
    """`host`, a ConchError coming out of its group as itself."""
    try:
        await host(feed, running, stop, report)
    except* ConchError as broken:
        raise innermost(broken) from None


async def _finish(
    bus: Bus, running: Sequence[Running], agents: Sequence[str], finish: asyncio.Event, stop: asyncio.Event
) -> None:
    await finish.wait()
    await quiet(bus, running, agents)
    stop.set()


async def _introduce(running: Sequence[Running], report: Callable[..., None]) -> None:
    """Let an exporter show what the consumers beside it count, and say where it listens."""
    met: dict[str, object] = {}
    while True:
        for one in running:
            service: object = one.now
            if service is None or met.get(one.name) is service:
                continue
            if not isinstance(service, Exporter):
                met[one.name] = service
            elif service.address is not None:
                met[one.name] = service
                service.tallies = lambda: {each.name: each.now.tally for each in running if each.now is not None}
                report(metrics=f"{service.address}/metrics")
        await asyncio.sleep(POLL_SECONDS)


def main() -> None:
    """Entry point of the process."""
    run_child("consumers", live)


if __name__ == "__main__":
    main()

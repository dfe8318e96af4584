"""The consumers' process (`python -m conch.consumer.process`), started by the supervisor: runs the consumers it is
given."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from conch.bus import Bus, shared_subscription
from conch.bus.jetstream import JetStreamBus
from conch.consumer.group.membership import Membership, joined
from conch.consumer.group.shared import SharedConsumer
from conch.consumer.host import HostedConsumer, host
from conch.consumer.operations.retention import keep_trimmed
from conch.consumer.plugins.builtin import Bound, builtin_services
from conch.consumer.plugins.discover import ConsumerInfo, Plugin, PluginRow, bound, load_one
from conch.consumer.plugins.reload import RuleReload, weighed
from conch.consumer.plugins.rule_process import RuleWorker, rule_consumer
from conch.consumer.runtime.breaker import ConsumerBreaker
from conch.consumer.services import ExporterService, Service, ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.experience import store_location
from conch.metrics import PLUGIN_METRICS, keep_reporting
from conch.processes import BUS_SECONDS, ChildProcessLink, messages, run_child
from conch.retry import CircuitBreaker
from conch.rules import DeclaredRule, RuleInfo
from conch.tasks import OwnedTasks
from conch_schemas import STREAM_SUBJECTS, agent_filter

SWITCH_SECONDS = 0.0005
"""Time that a thread may keep the interpreter: with Python's 5 ms the store's waits longer for it than for the disk."""
POLL_SECONDS = 0.02
FEW = 16
"""Up to this many agents are named to the server; with more, the events of all agents count."""


async def quiet(bus: Bus, running: Sequence[HostedConsumer], agents: Sequence[str] = ()) -> None:
    """Return when all of these have handled everything on the stream, and nothing waits for a deadline.

    `agents`: the agents whose events count, where others are still active; none: all agents.
    """
    theirs = [agent_filter(agent) for agent in agents] if 0 < len(agents) <= FEW else STREAM_SUBJECTS
    while True:
        last = (await bus.state()).last
        while not all(one.down or _is_done(one, last) for one in running):  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(POLL_SECONDS)
        if not await _is_behind(bus, theirs, last):
            return


async def _is_behind(bus: Bus, theirs: Sequence[str], last: int) -> bool:
    """Whether there is anything of theirs behind `last`."""
    async for _ in bus.read(theirs, after=last):
        return True
    return False


def _is_done(one: HostedConsumer, last: int) -> bool:
    if one.now is None:
        return False
    if (handled := one.now.handled) is None:
        return True
    return handled >= last and not one.now.busy


def builtin(context: ServiceContext, names: Sequence[str], members: Membership) -> list[HostedConsumer]:
    """The consumers that come with Conch, of these names."""
    found = builtin_services(names)
    return [HostedConsumer(name, _maker(found[name], context, members)) for name in names]


def _maker(bind: Bound, context: ServiceContext, members: Membership) -> Callable[[], Service]:
    def make() -> Service:
        made = bind(replace(context, members=members))
        return _shared(made, context, members) if isinstance(made, ConsumerSpec) else made

    return make


def _shared(spec: ConsumerSpec, context: ServiceContext, members: Membership) -> SharedConsumer:
    circuit = CircuitBreaker(context.settings.consumers.breaker)
    breaker = ConsumerBreaker(spec.name, circuit, context.report)
    return SharedConsumer(spec, members, breaker)


def plugin(
    plugin: Plugin, context: ServiceContext, members: Membership, stack: AsyncExitStack, *, begin: int = 0
) -> HostedConsumer:
    """A plug-in: a rule scores in a process of its own, a consumer or service runs in this one."""
    if isinstance(plugin, RuleInfo):
        rewards = context.settings.rewards
        timeout, memory = rewards.rule_timeout, rewards.rule_memory_mib
        spec, worker = rule_consumer(plugin, timeout=timeout, memory_mib=memory, begin=begin)
        stack.push_async_callback(RuleWorker.close, worker)
        return HostedConsumer(spec.name, lambda: _shared(spec, context, members), worker=worker)
    declared = load_one(plugin.origin, plugin.declared, plugin.text)
    assert not isinstance(declared, DeclaredRule)
    bind = partial(bound, declared, plugin.instance)
    return HostedConsumer(plugin.name, _maker(bind, replace(context, begin=begin), members))


async def live(child: ChildProcessLink[messages.ConsumersStart[PluginRow]]) -> None:
    """Run the consumers that the spec names, until told to stop; `finish` stops them once everything is handled."""
    sys.setswitchinterval(SWITCH_SECONDS)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    finish = asyncio.Event()
    child.on(messages.StopCommand, lambda _: stop.set())
    child.on(messages.FinishCommand, lambda _: finish.set())
    async with (
        JetStreamBus(child.access, name=child.spec.name, strict=child.strict, connect_timeout=BUS_SECONDS) as bus,
        shared_subscription(bus) as shared_events,
        joined(bus, _names(child), _worker(child)) as members,
        AsyncExitStack() as stack,
        OwnedTasks() as beside,
    ):
        begin = await weighed(bus, child.spec.agents[0])
        context = ServiceContext(child.settings, child.home, child.report, begin, child.spec.since)
        running = builtin(context, child.spec.builtin, members)

        def made(one: Plugin, begin: int) -> HostedConsumer:
            return plugin(one, context, members, stack, begin=begin)

        running += [made(described, begin) for described in child.spec.plugins]
        changing = None
        if child.spec.reloads:
            changing = RuleReload(
                shared_events,
                running,
                made,
                agent=child.spec.agents[0],
                patience=child.settings.rewards.deadline,
                stop=stop,
                report=child.report,
            )
            want = changing.want
            child.on(
                messages.ChangeRules[PluginRow],
                lambda command: want([one for one in command.rules if isinstance(one, RuleInfo)]),
            )
        beside.start(_finish(bus, running, child.spec.agents, finish, stop), name="conch.finish")
        beside.start(introduce(running, child.report), name="conch.introduce")
        if any(isinstance(one, ConsumerInfo) for one in child.spec.plugins):
            beside.start(keep_reporting(child.report), name="conch.metrics.report")
        else:
            child.on(messages.ShowPluginMetrics, lambda told: PLUGIN_METRICS.take(told.process, told.metrics))
        if child.spec.keeps:
            keeping = keep_trimmed(bus, child.settings.bus.keep, store_location(child.settings.store.url, child.home))
            beside.start(keeping, name="conch.keep")
        if changing is None:
            await host(shared_events, running, stop, child.report)
        else:
            ours = [one for one in running if one.worker is None]
            await host(shared_events, ours, stop, child.report, changing.obey)
        await stop.wait()  # the stream is trimmed where no consumer is left, too


def _names(child: ChildProcessLink[messages.ConsumersStart[PluginRow]]) -> list[str]:
    """Names of the consumers that run here."""
    return [*child.spec.builtin, *(described.consumer for described in child.spec.plugins)]


def _worker(child: ChildProcessLink[messages.ConsumersStart[PluginRow]]) -> str:
    """The same name whenever this process of this home is started: what it held before is its own again at once."""
    place = uuid.uuid5(uuid.NAMESPACE_URL, f"{socket.gethostname()}{child.home.resolve()}")
    return f"{child.spec.name}-{place.hex[:8]}"


async def _finish(
    bus: Bus, running: Sequence[HostedConsumer], agents: Sequence[str], finish: asyncio.Event, stop: asyncio.Event
) -> None:
    await finish.wait()
    await quiet(bus, running, agents)
    stop.set()


async def introduce(running: Sequence[HostedConsumer], report: Callable[[messages.ConsumerReport], None]) -> None:
    """Give exporters the counts of the consumers beside them, and report their addresses."""
    met: dict[str, object] = {}
    while True:
        for one in running:
            service: object = one.now
            if service is None or met.get(one.name) is service:
                continue
            if not isinstance(service, ExporterService):
                met[one.name] = service
            elif service.address is not None:
                met[one.name] = service
                service.tallies = lambda: {each.name: each.now.tally for each in running if each.now is not None}
                report(messages.MetricsServed(url=f"{service.address}/metrics"))
        await asyncio.sleep(POLL_SECONDS)


def main() -> None:
    """Entry point of the process."""
    run_child("consumers", messages.ConsumersStart[PluginRow], live)


if __name__ == "__main__":
    main()

"""The whole pipeline: acts published by one process; reward, needs, curiosity, witness and store in another.

A burst of acts, each followed by a reward, a change of needs, a measure of novelty, two marks and an experience. From
the stream's time of the first act until 95 % of the facts of every kind are stored: the last of them are no measure of
a steady state, as batches that do not fill wait for their time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bus.child import Child, started
from bus.events import acts, rendered, weights
from bus.figures import Figures
from bus.server import Server, cpu_seconds
from bus.stage import Passed, unstalled
from bus.stream import Stream, opened, whole
from conch.bus import OutgoingMessage
from conch.config import BusSettings, Settings
from conch.consumer.plugins.discover import PluginRow
from conch.processes import messages
from conch_schemas import type_filter

AGENTS = 64
"""So many that the acts of each fit, with WARM, into the 64 that the witness collects scores for: of an act beyond
these, each score gets a mark of its own."""
WARM = 4
"""Cycles of each agent before the clock starts."""
AT_ONCE = 1000
"""Acts to a call of the publisher."""
STALL_SECONDS = 20.0
SHARE = 0.95
FIVE = ("reward", "needs", "curiosity", "witness", "store")
FOLLOW = {
    "reward.assigned": 1,
    "needs.changed": 1,
    "novelty.measured": 1,
    "mark.witnessed": 2,
    "experience.recorded": 1,
}
"""Facts that follow from one act."""
BEFORE = {"mark.witnessed": 1}
"""Facts of each agent that follow from what is published before its first act: the mark of its weight set."""
EVENTS = 1 + sum(FOLLOW.values())
LEAST = 3000.0
"""Cycles a second that Conch is to reach."""


class Mode(NamedTuple):
    """One way to run the five consumers."""

    name: str
    faststream: str | None
    """The mode of its subscribers; None: Conch."""
    cycles: int
    """Of each agent."""
    apart: bool = False
    """Whether each subscriber has a process of its own."""
    metrics: bool = False
    """Whether Conch counts its metrics too, as in a run."""
    goal: float | None = None


MODES = (
    Mode("Conch, one process as in a run", None, 60),
    Mode("Conch, the same with the run's metrics", None, 60, metrics=True),
    Mode("FastStream, its default", "push", 4),
    Mode("FastStream, PullSub(256)", "pull", 8, goal=4.0),
    Mode("FastStream, PullSub(256, batch=True) and gather", "batch", 16, goal=4.0),
    Mode("FastStream, the same, five processes", "batch", 16, apart=True, goal=4.0),
)
STRICT = (MODES[0], *MODES[-2:])
"""Those that are run again with one fsync a message."""


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Each mode in turn, `times` times over, with `share` of the usual number of cycles."""
    for _ in range(times):
        for strict, modes in ((False, MODES), (True, STRICT)):
            for mode in modes:
                cycles = max(WARM, int(mode.cycles * share))
                passed = await unstalled(figures, mode.name, partial(once, mode, strict, cycles))
                name, ours = f"pipeline, cycles of {EVENTS} events" + (", strict" if strict else ""), mode is MODES[0]
                passed.into(figures, name, mode.name, goal=mode.goal, ours=ours, least=LEAST if ours else None)


async def once(mode: Mode, strict: bool, cycles: int, *, watch: Callable[[int], None] | None = None) -> Passed:
    """One burst of `cycles` acts of each agent on a server of its own; `watch` is given the consumers' process."""
    burst = _messages(cycles, first=1 + WARM)
    with ExitStack() as stack:
        server = stack.enter_context(Server(strict=strict))
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-bench-home-"))
        async with opened(server) as stream:
            await stream.bus.publish_many([OutgoingMessage(*each) for each in rendered(weights(AGENTS))])
            with ExitStack() as running:
                consumers = begin(mode, server, home, running)
                await _publish(stream, _messages(WARM, first=1))
                await followed(stream, WARM, consumers)
                last = (await stream.bus.state()).last
                if watch is not None:
                    watch(consumers[0].pid)
                used, served = sum(cpu_seconds(one.pid) for one in consumers), server.cpu()
                await _publish(stream, burst)
                await followed(stream, WARM + cycles, consumers)
                used, served = sum(cpu_seconds(one.pid) for one in consumers) - used, server.cpu() - served
            began = await stream.bus.at(last + 1)
            assert began is not None
            seconds = await _through(stream, WARM + cycles, mode.name) - began.time
            return Passed(SHARE * len(burst) / seconds, used / len(burst) * 1e6, served / len(burst) * 1e6)


def begin(mode: Mode, server: Server, home: str, running: ExitStack) -> list[Child]:
    """The consumers' processes, gone with `running`."""
    if mode.faststream is None:
        return [running.enter_context(conch_consumers(server, home, metrics=mode.metrics))]
    parts: Sequence[Sequence[str]] = [(name,) for name in FIVE] if mode.apart else [FIVE]
    command = ("bus.pipeline_faststream", mode.faststream, server.url, home)
    return [running.enter_context(started(*command, *part)) for part in parts]


def conch_consumers(server: Server, home: str, *, metrics: bool = False) -> AbstractContextManager[Child]:
    """The process that a run's supervisor starts, told what that tells it; of the built-in consumers the five."""
    settings = Settings(bus=BusSettings(durability="strict" if server.strict else "fast"))
    spec = messages.ConsumersStart[PluginRow](
        settings=settings,
        home=Path(home),
        access=server.access,
        name="conch-consumers",
        agents=tuple(f"echo-{number + 1}" for number in range(AGENTS)),
        builtin=(*FIVE, "metrics") if metrics else tuple(FIVE),
        keeps=True,
    )
    return started("conch.consumer.process", spec=spec.encode().decode().rstrip())


def _messages(cycles: int, *, first: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(*each) for each in rendered(acts(AGENTS, cycles, first=first))]


async def _publish(stream: Stream, messages: Sequence[OutgoingMessage]) -> None:
    for at in range(0, len(messages), AT_ONCE):
        await stream.bus.publish_many(messages[at : at + AT_ONCE])


def expected(kind: str, cycles: int) -> int:
    """How many facts of a kind stand on the stream after `cycles` acts of each agent."""
    return AGENTS * (cycles * FOLLOW[kind] + BEFORE.get(kind, 0))


async def followed(stream: Stream, cycles: int, consumers: Sequence[Child]) -> None:
    """Until everything that follows from `cycles` acts of each agent is stored. Raises StalledError."""
    for kind in FOLLOW:
        await stream.until(type_filter(kind), expected(kind, cycles), STALL_SECONDS, consumers)


async def _through(stream: Stream, cycles: int, name: str) -> float:
    """When SHARE of the facts of every kind were stored; ends the bench unless all are there, each once."""
    through = 0.0
    for kind, each in FOLLOW.items():
        found = await stream.read([type_filter(kind)])
        whole(found, expected(kind, cycles), f"{name}: {kind}")
        left = int((cycles - WARM) * AGENTS * each * (1 - SHARE))
        through = max(through, found[-1 - left].time)
        if kind == "experience.recorded" and not all(json.loads(one.data)["data"]["complete"] for one in found):
            raise SystemExit(f"{name}: an experience is not complete")
    return through

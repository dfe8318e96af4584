"""One consumer stage: an act comes, is decoded and handled, its reward is stored, the act acknowledged.

The consumer is a process of its own, warm, at the end of the stream; then a burst of acts is published. From the
stream's time of the first act to that of the last reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from bus import raw
from bus.child import started
from bus.events import acts, rendered
from bus.figures import Figures
from bus.server import Server, cpu_seconds
from bus.stream import StalledError, opened, whole

AGENTS = 8
WARM = 256
"""Acts before the clock starts."""
REWARDS = "conch.v1.*.reward.assigned"
STALL_SECONDS = 10.0
TRIES = 3
"""How often a mode may stall before the bench ends."""


class Mode(NamedTuple):
    """One way to run the stage."""

    name: str
    command: tuple[str, ...]
    acts: int
    goal: float | None = None


MODES = (
    Mode("Conch consumer", ("bus.stage_conch", "each"), 16_384),
    Mode("Conch consumer, batch=256", ("bus.stage_conch", "batch"), 16_384),
    Mode("FastStream, its default", ("bus.stage_faststream", "push"), 2_048, 12.0),
    Mode("FastStream, 64 workers", ("bus.stage_faststream", "push64"), 2_048, 7.0),
    Mode("FastStream, PullSub(256)", ("bus.stage_faststream", "pull"), 4_096, 7.0),
    Mode("FastStream, PullSub(256), 64 workers", ("bus.stage_faststream", "pull64"), 2_048, 7.0),
    Mode("FastStream, PullSub(256, batch=True) and gather", ("bus.stage_faststream", "batch"), 8_192, 3.5),
    Mode("nats-py push callback", ("bus.stage_nats", "push"), 4_096),
    Mode("nats-py fetch(256) and gather", ("bus.stage_nats", "fetch"), 8_192),
)


class Passed(NamedTuple):
    """One burst, handled."""

    rate: float
    """Acts a second."""
    us: float
    """The consumer's processor time an act, microseconds."""
    server_us: float

    def into(self, figures: Figures, measurement: str, mode: str, **more: Any) -> None:
        """Add it as one time of a mode."""
        figures.add(measurement, mode, self.rate, us=self.us, server=self.server_us, **more)


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Each mode in turn, `times` times over, with `share` of the usual number of acts."""
    for _ in range(times):
        for mode in MODES:
            count = max(WARM, int(mode.acts * share) // WARM * WARM)
            passed = await unstalled(figures, mode.name, partial(once, mode, count))
            passed.into(figures, "stage", mode.name, goal=mode.goal, ours=mode is MODES[0])


async def unstalled(figures: Figures, name: str, once: Callable[[], Awaitable[Passed]]) -> Passed:
    """`once`, begun again where it stalled; that is said beside the figures."""
    for _ in range(TRIES):
        try:
            return await once()
        except StalledError as stalled:
            figures.note(f"{name} stalled and was begun again: {stalled}.")
    raise SystemExit(f"{name} stalled {TRIES} times")


async def once(mode: Mode, count: int, *, watch: Callable[[int], None] | None = None) -> Passed:
    """One burst of `count` acts on a server of its own; `watch` is given the consumer's process as it begins."""
    warm = [message[:2] for message in rendered(acts(AGENTS, WARM // AGENTS))]
    burst = [message[:2] for message in rendered(acts(AGENTS, count // AGENTS, first=1 + WARM // AGENTS))]
    with Server() as server:
        async with opened(server) as stream:
            with started(*mode.command, server.url) as child:
                await asyncio.to_thread(raw.publish, server.port, warm)
                await stream.until(REWARDS, WARM, STALL_SECONDS, [child])
                last = (await stream.bus.state()).last
                if watch is not None:
                    watch(child.pid)
                used, served = cpu_seconds(child.pid), server.cpu()
                await asyncio.to_thread(raw.publish, server.port, burst)
                await stream.until(REWARDS, WARM + count, STALL_SECONDS, [child])
                used, served = cpu_seconds(child.pid) - used, server.cpu() - served
            began = await stream.bus.at(last + 1)
            assert began is not None
            rewards = await stream.read([REWARDS])
            whole(rewards, WARM + count, mode.name)
            seconds = rewards[-1].time - began.time
            return Passed(count / seconds, used / count * 1e6, served / count * 1e6)

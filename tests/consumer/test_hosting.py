"""Consumers side by side: what becomes of one that breaks."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import shared_subscription
from conch.consumer.host import HostedConsumer, host
from conch.consumer.runtime.output import ConsumerCounts
from conch.processes.messages import ConsumerBroke, ConsumerDown
from conch.retry import MOST_RESTARTS, Backoff

if TYPE_CHECKING:
    from conch.bus import Bus


hosting = importlib.import_module("conch.consumer.host")  # its package offers a function of this name


class Breaking:
    """A service that breaks as often as it is told, then runs on."""

    name, tally, handled, busy = "breaking", ConsumerCounts(), None, False

    def __init__(self, breaks: int) -> None:
        self.left, self.runs = breaks, 0

    async def run(self, _shared_events: Any, stop: asyncio.Event) -> None:
        self.runs += 1
        if self.runs <= self.left:
            raise ExceptionGroup("work", [ValueError("a version that is no text")])
        await stop.wait()


@pytest.mark.parametrize("often", [MOST_RESTARTS - 1, MOST_RESTARTS, 1000])
async def test_one_that_breaks_again_and_again_is_left_down(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, often: int
) -> None:
    """The fifth time in a minute: that is said with the reason, and it is not up; its neighbour is; once less and so is
    it."""
    monkeypatch.setattr(hosting, "CONSUMER", Backoff((0.0,)))
    bad, good, said, stop = Breaking(often), Breaking(0), [], asyncio.Event()
    running = [HostedConsumer("bad", lambda: bad), HostedConsumer("good", lambda: good)]

    async with shared_subscription(bus) as shared_events:
        hosted = asyncio.create_task(host(shared_events, running, stop, said.append))
        while not running[0].down and bad.runs <= often:
            await asyncio.sleep(0)
        up = [one.up for one in running]
        stop.set()
        await hosted

    assert good.runs == 1
    assert up == [often < MOST_RESTARTS, True]
    assert said[0] == ConsumerBroke(consumer="bad", why="ValueError: a version that is no text")
    assert bad.runs == MOST_RESTARTS
    down = "it broke 5 times in a minute, last of ValueError: a version that is no text"
    assert running[0].down == (down if often >= MOST_RESTARTS else "")
    assert (ConsumerDown(consumer="bad", why=down) in said) is (often >= MOST_RESTARTS)

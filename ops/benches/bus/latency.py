"""From an act to its reward: published by one process at a steady rate, scored in another, read back by the first.

One clock: the publisher's monotonic one, from just before an act is published until a reader of the stream holds its
reward. Strict durability, as in a run. The rate is offered whatever comes back; a percentile is said where enough
samples lie beyond it.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack

from bus.child import started
from bus.events import rendered, weights
from bus.figures import Delay, Figures
from bus.pipeline import AGENTS, conch_consumers
from bus.server import Server
from bus.stream import opened
from conch.bus import OutgoingMessage

OFFERED = {1: 60.0, 10: 60.0, 100: 60.0, 1000: 15.0}
"""Cycles a second -> seconds."""
LEAST = 2
"""Acts at any rate."""


async def measure(figures: Figures, *, times: int, share: float) -> None:
    """Each rate once, for `share` of its time. `times` is for the other measurements: here the samples are many."""
    with ExitStack() as stack:
        server = stack.enter_context(Server(strict=True))
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-bench-home-"))
        async with opened(server) as stream:
            await stream.bus.publish_many([OutgoingMessage(*each) for each in rendered(weights(AGENTS))])
            stack.enter_context(conch_consumers(server, home))
            pace = stack.enter_context(started("bus.pace", server.url))
            for offered, seconds in OFFERED.items():
                pace.tell(f"{offered} {max(LEAST, int(offered * seconds * share))}")
                figures.delays.append(Delay("act to reward, strict", offered, json.loads(pace.heard())))

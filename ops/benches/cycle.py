"""What Conch adds to a cycle, and how long an act waits to be recorded; both also in fsyncs of this disk.

A real run with the reflex mind under strict durability. Overhead: from the moment a cycle begins to think until its
last fact is stored, less the mind's, the tool's and the goals' checks' own time. Act to recorded: between the two
facts' times in the stream, one clock.
"""

from __future__ import annotations

import argparse
import asyncio
from datetime import datetime
from pathlib import Path

from runs import conch_run, fresh_home, fsync_ms, percentile

from conch.bus.jetstream import JetStreamBus
from conch.cli.common import embedded_server
from conch.config import Settings
from conch.home import Home
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ThoughtFormed,
    decode,
    subject_filter,
)

KINDS: tuple[type[Event], ...] = (ThoughtFormed, ActionDecided, ActionTaken, CycleReflected, ExperienceRecorded)


async def facts(home: str) -> dict[int, dict[type[Event], tuple[float, Event]]]:
    """By cycle and kind: when the stream stored it, and the event."""
    server = embedded_server(Home(Path(home)), Settings())
    await server.start()
    found: dict[int, dict[type[Event], tuple[float, Event]]] = {}
    try:
        async with JetStreamBus(server.url, token=server.token) as bus:
            async for delivery in bus.read([subject_filter(kind) for kind in KINDS]):
                event = decode(delivery.data)
                if event.cycle is not None:
                    found.setdefault(event.cycle, {}).setdefault(type(event), (delivery.time, event))
    finally:
        await server.stop()
    return found


def _seconds(time: datetime) -> float:
    return time.timestamp()


def main() -> None:
    """Print p50 and p99 in milliseconds and in fsyncs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--interval", default="0.05")
    options = parser.parse_args()
    with fresh_home() as home:
        before = fsync_ms(home)
        timed = conch_run(home, "--cycles", str(options.cycles), "--interval", options.interval)
        unit = (before + fsync_ms(home)) / 2
        cycles = asyncio.run(facts(home))
    overhead, recorded = [], []
    for kinds in cycles.values():
        if set(kinds) < set(KINDS):
            continue
        thought, decided, taken = kinds[ThoughtFormed][1], kinds[ActionDecided][1], kinds[ActionTaken][1]
        assert isinstance(thought, ThoughtFormed)
        assert isinstance(decided, ActionDecided)
        assert isinstance(taken, ActionTaken)
        whole = (kinds[CycleReflected][0] - _seconds(thought.time)) * 1000
        overhead.append(whole - decided.ms - taken.ms["act"])
        recorded.append((kinds[ExperienceRecorded][0] - kinds[ActionTaken][0]) * 1000)
    print(f"{len(overhead)} cycles of {len(timed.rows)}; one fsync {unit:.3f} ms")
    for name, values in (("overhead of a cycle", overhead), ("act to recorded", recorded)):
        middle, far = percentile(values, 0.5), percentile(values, 0.99)
        print(f"{name}: p50 {middle:.1f} ms ({middle / unit:.0f} fsyncs), p99 {far:.1f} ms ({far / unit:.0f} fsyncs)")


if __name__ == "__main__":
    main()

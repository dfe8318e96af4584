"""What Conch adds to a cycle, and how long an act waits to be recorded; both also in fsyncs of this disk.

Real runs under strict durability. Overhead: from the moment a cycle begins to think until its
last fact is stored, less the mind's, the tool's and the goals' checks' own time. Act to recorded: between the two
facts' times in the stream, one clock.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from runs import conch_run, fresh_home, fsync_ms, options, percentile

from conch.bus.access import Access
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
        async with JetStreamBus(Access(server.url, token=server.token)) as bus:
            async for delivery in bus.read([subject_filter(kind) for kind in KINDS]):
                event = decode(delivery.data)
                if event.cycle is not None:
                    found.setdefault(event.cycle, {}).setdefault(type(event), (delivery.time, event))
    finally:
        await server.stop()
    return found


def measure(cycles: int, options: list[str]) -> tuple[float, list[float], list[float]]:
    """One run: milliseconds of an fsync, of each cycle's overhead, of each act's way to its record."""
    with fresh_home() as home:
        script = Path(home) / "no-op.txt"
        script.write_text('TOOL: filesystem(operation="exists", path="README.md")\n' * cycles)
        before = fsync_ms(home)
        conch_run(f"{home}/home", *[str(script) if option == "NO-OP" else option for option in options])
        unit = (before + fsync_ms(home)) / 2
        found = asyncio.run(facts(f"{home}/home"))
    overhead, recorded = [], []
    for kinds in found.values():
        if set(kinds) < set(KINDS):
            continue
        thought, decided, taken = kinds[ThoughtFormed][1], kinds[ActionDecided][1], kinds[ActionTaken][1]
        assert isinstance(decided, ActionDecided)
        assert isinstance(taken, ActionTaken)
        whole = (kinds[CycleReflected][0] - thought.time.timestamp()) * 1000
        overhead.append(whole - decided.ms - taken.ms["act"])
        recorded.append((kinds[ExperienceRecorded][0] - kinds[ActionTaken][0]) * 1000)
    return unit, overhead, recorded


def main() -> None:
    """Print p50 and p99 in milliseconds and in fsyncs, with a no-op tool and with the reflex mind's own acts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--interval", default="0.05")
    chosen = options(parser, cycles=4)
    for title, more in (
        ("a no-op tool", ["--script", "NO-OP"]),
        ("the reflex mind at work", ["--cycles", str(chosen.cycles)]),
    ):
        unit, overhead, recorded = measure(chosen.cycles, ["--interval", chosen.interval, *more])
        print(f"{title}: {len(overhead)} cycles, one fsync {unit:.3f} ms")
        for name, values in (("overhead of a cycle", overhead), ("act to recorded", recorded)):
            middle, far = percentile(values, 0.5), percentile(values, 0.99)
            print(f"  {name}: p50 {middle:.1f} ms ({middle / unit:.0f} fsyncs), p99 {far:.1f} ms ({far / unit:.0f})")


if __name__ == "__main__":
    main()

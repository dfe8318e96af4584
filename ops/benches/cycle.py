"""What Conch adds to a cycle, and how long an act waits to be recorded; both also in fsyncs of this disk.

Real runs under strict durability. Overhead: from the moment a cycle begins to think until its
last fact is stored, less the mind's, the tool's and the goals' checks' own time. Act to recorded: between the two
facts' times in the stream, one clock.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from live import NO_OP, facts, latencies
from runs import conch_run, fresh_home, fsync_ms, options, percentile


def measure(cycles: int, options: list[str]) -> tuple[float, list[float], list[float]]:
    """One run: milliseconds of an fsync, of each cycle's overhead, of each act's way to its record."""
    with fresh_home() as home:
        script = Path(home) / "no-op.txt"
        script.write_text(NO_OP * cycles)
        before = fsync_ms(home)
        conch_run(f"{home}/home", *[str(script) if option == "NO-OP" else option for option in options])
        unit = (before + fsync_ms(home)) / 2
        found = facts(Path(home, "home"))
    return unit, *latencies(found)


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

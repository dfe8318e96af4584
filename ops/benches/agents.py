"""What an agent costs beside others: memory, latency, CPU per cycle for 1, 10, 100, 1,000 agents of one process, at the
same offered rate; and what a cycle costs with 1 thousand to 1 million cycles in the store.

Real runs under strict durability. CPU is of the whole process between two moments, per cycle recorded between them; it
begins after every agent has had its first cycle. `cycle` is what Conch adds: from the moment a cycle begins to think
until its last fact is stored, less the mind's, the tool's and the checks' own time. `recorded`: from the act to its
experience, both by the stream's clock. At full speed: `ops/bench run`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from history import fill_store
from live import Cycle, Moment, acted, facts, latencies, live
from runs import fresh_home, fsync_ms, options, percentile

PROCESSES = ("agent", "consumers", "nats-server")
HEAD = (
    "| agents | cycles/s | first row s | CPU ms a cycle: agents | consumers | server | all "
    "| agents' process MiB | KiB an agent | cycle p50 ms | p99 | recorded p50 ms | p99 |"
)


def row(
    name: str, first: float, before: Moment, after: Moment, cycles: list[Cycle], alone: int | None, agents: int
) -> str:
    """A line of the table."""
    count, seconds = len(cycles), after.time - before.time
    cpu = {name: (after.cpu[name] - before.cpu[name]) / max(1, count) * 1000 for name in after.cpu}
    overhead, recorded = latencies(cycles)
    rss = after.rss["agent"]
    each = "" if alone is None or agents == 1 else f"{(rss - alone) / (agents - 1) / 1024:.0f}"
    shown = [f"{cpu[name]:.2f}" for name in PROCESSES] + [f"{sum(cpu.values()):.2f}"]
    times = [f"{percentile(values, share):.1f}" for values in (overhead, recorded) for share in (0.5, 0.99)]
    cells = [name, f"{count / seconds:.1f}", f"{first:.2f}", *shown, f"{rss / 2**20:.0f}", each, *times]
    return f"| {' | '.join(cells)} |"


def one(
    agents: int, rate: float, seconds: float, mind: str, stored: int = 0
) -> tuple[float, Moment, Moment, list[Cycle]]:
    """One run in a home of its own."""

    def prepare(home: Path) -> None:
        if stored:
            fill_store(home, stored)

    interval = agents / rate
    with live(agents, mind, interval, prepare) as run:
        first = run.until_each(1)
        time.sleep(interval + 3.0)
        before = run.moment()
        time.sleep(max(seconds, interval))
        after = run.moment()
        run.end()
        return first, before, after, acted(facts(run.home), before.time, after.time)


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default="1,10,100,1000", help="numbers of agents")
    parser.add_argument("--stored", default="", help="numbers of cycles in the store: 1000,10000,100000,1000000")
    parser.add_argument("--rate", type=float, default=20.0, help="cycles a second that all of them offer")
    parser.add_argument("--seconds", type=float, default=50.0, help="seconds that are measured")
    parser.add_argument("--mind", default="no-op", choices=("no-op", "reflex"))
    chosen = options(parser, agents="1,2", seconds=3.0)
    with fresh_home() as directory:
        print(f"mind {chosen.mind}, {chosen.rate:g} cycles/s offered, one fsync {fsync_ms(directory):.3f} ms")
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1), flush=True)
    alone: int | None = None
    for agents in [int(number) for number in chosen.agents.split(",") if number]:
        first, before, after, cycles = one(agents, chosen.rate, chosen.seconds, chosen.mind)
        alone = after.rss["agent"] if agents == 1 else alone
        print(row(f"{agents:,}", first, before, after, cycles, alone, agents), flush=True)
    for stored in [int(number) for number in chosen.stored.split(",") if number]:
        first, before, after, cycles = one(1, chosen.rate, chosen.seconds, chosen.mind, stored)
        print(row(f"1, {stored:,} stored", first, before, after, cycles, None, 1), flush=True)


if __name__ == "__main__":
    main()

"""Measure the whole run: ops/bench run [--agents N…] [--processes P…] [--seconds S] [--mind no-op|reflex|both]
[--quick] [--renew].

Real runs under strict durability, as fast as they go, each in a fresh home: cycles, processor time, memory, bytes,
facts and fsyncs, between two moments after each agent's first cycle. `no-op` is the scripted mind with a tool that does
nothing. PSS divides a page among the processes that share it, so it is the memory to quote.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from live import LiveRun
from runs import fresh_home, fsync_ms, options

from run.gate import hold, renew
from run.measure import Measured, measure
from run.table import table

AGENTS = [1, 10, 100, 1000]
SPREAD = (100, 2)
"""Agents and processes of the row of several agent processes, where neither is given; of the no-op mind."""
REFLEX = (1, 10)
"""Agents of the reflex mind, where none are named: each more agents adds the same work of its own."""


def main() -> None:
    """Print one table; with --quick end with 1 where a cycle costs more than it did."""
    parser = argparse.ArgumentParser(prog="ops/bench run", description=__doc__)
    parser.add_argument(
        "--agents", type=int, nargs="+", help="numbers of agents; 1 10 100 1000, of the reflex mind 1 10"
    )
    parser.add_argument("--processes", type=int, nargs="+", help="numbers of agent processes; 1, of 100 agents also 2")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds that are measured of each run")
    parser.add_argument("--mind", default="both", choices=("no-op", "reflex", "both"))
    parser.add_argument("--renew", action="store_true", help="measure what --quick compares with, and store it")
    chosen = options(parser)
    with fresh_home() as directory:
        print(f"one fsync {fsync_ms(directory):.3f} ms, load {os.getloadavg()[0]:.1f}", flush=True)
    if chosen.quick or chosen.renew:
        sys.exit(renew() if chosen.renew else hold())
    found: list[Measured] = []
    for mind in ("no-op", "reflex") if chosen.mind == "both" else (chosen.mind,):
        for agents, processes in _rows(mind, chosen.agents, chosen.processes):
            found.append(measure(agents, mind, lambda run: _wait(run, chosen.seconds), count=processes))
            print(f"{mind}, {agents:,} agents, {processes} processes: load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print(table(found))


def _rows(mind: str, agents: list[int] | None, processes: list[int] | None) -> list[tuple[int, int]]:
    """The agents and agent processes of each run."""
    rows = [
        (number, spread)
        for number in agents or (AGENTS if mind == "no-op" else REFLEX)
        for spread in processes or [1]
        if spread <= number
    ]
    return rows if agents or processes or mind != "no-op" else [*rows, SPREAD]


def _wait(run: LiveRun, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.check()
        time.sleep(min(0.5, max(0.0, until - time.monotonic())))


if __name__ == "__main__":
    main()

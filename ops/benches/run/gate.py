"""Whether a cycle costs more processor time than it did, held against a fixed workload in the same minute.

The share: milliseconds of processor time a cycle, divided by those of one turn of the yardstick, which takes its turns
while the run goes on. It is held against `reference.json`, which `ops/bench run --renew` writes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from live import LiveRun
from runs import fresh_home

from run.measure import Measured, measure
from run.table import table
from run.yardstick import Yardstick

REFERENCE = Path(__file__).with_name("reference.json")
AGENTS = 10
RISE = 1.2
"""Most times its reference that a share may be."""
SHOWN = ("agent", "consumers", "nats-server", "all")
"""What is printed: the processes that work for each cycle, and the sum with the others."""
HELD = "all"
"""What has a limit. Beside other work the server's share rises by a third and the agent's falls by a quarter, the sum
stays within 6 %."""
WARM, CYCLES = 200, 600
"""Cycles before the measured ones, and those: imports, caches and the first checkpoints are over."""
REST = 0.03
"""Seconds between two turns of the yardstick: it takes a twentieth of a core."""
CLEAR, TIMES = 1.05, 3
"""Where the mean is more than `CLEAR` times the reference there is another run, up to so many. 16 runs of the same
code, half of them beside a busy process, lay between 0.95 and 1.15 times their median, standard deviation 5 %."""
RENEWING = 5
"""Runs whose median is the reference."""


@dataclass(frozen=True)
class Shares:
    """A run, and what its cycles cost in turns of the yardstick."""

    measured: Measured
    turn: float
    """Milliseconds of one turn."""
    shares: dict[str, float]


def hold() -> int:
    """Measure, print, compare; 1 where a cycle costs more than `RISE` times the reference, 0 otherwise."""
    reference = json.loads(REFERENCE.read_text())["shares"]
    found: list[dict[str, float]] = []
    while len(found) < TIMES and (not found or rise(found, reference) > CLEAR):
        one = _shares()
        found.append(one.shares)
        _show(one, reference)
    if (risen := rise(found, reference)) <= RISE:
        return 0
    print(
        f"ops/bench run: a cycle costs {risen:.2f} times the reference, more than {RISE:g}: find out why, or store the "
        "new cost with ops/bench run --renew",
        file=sys.stderr,
    )
    return 1


def renew() -> int:
    """Store the medians of several runs."""
    found = []
    for _ in range(RENEWING):
        found.append(_shares())
        print(", ".join(f"{name} {share:.3f}" for name, share in found[-1].shares.items()), flush=True)
    shares = {name: round(statistics.median(one.shares[name] for one in found), 3) for name in SHOWN}
    told = {
        "renewed by": "ops/bench run --renew",
        "what": f"CPU of a cycle of {AGENTS} agents with a no-op tool, in turns of the yardstick",
        "shares": shares,
    }
    REFERENCE.write_text(json.dumps(told, indent=2) + "\n")
    return 0


def rise(found: list[dict[str, float]], reference: Mapping[str, float]) -> float:
    """How many times its reference the mean share of the sum is."""
    return statistics.mean(shares[HELD] for shares in found) / reference[HELD]


def _shares() -> Shares:
    with fresh_home() as directory, Yardstick(Path(directory)) as yardstick:
        measured = measure(AGENTS, "no-op", lambda run: _cycles(run, CYCLES, yardstick), lambda run: _cycles(run, WARM))
        turn = yardstick.seconds / yardstick.turns * 1000
    return Shares(measured, turn, {name: measured.cpu[name] / turn for name in SHOWN})


def _cycles(run: LiveRun, cycles: int, yardstick: Yardstick | None = None) -> None:
    """Wait for so many more recorded cycles, and let the yardstick take its turns meanwhile."""
    until = run.recorded() + cycles
    while run.recorded() < until:
        run.check()
        if yardstick is not None:
            yardstick.turn()
        time.sleep(REST)


def _show(one: Shares, reference: Mapping[str, float]) -> None:
    print(table([one.measured]))
    print(f"one turn of the yardstick {one.turn:.2f} ms, load {os.getloadavg()[0]:.1f}")
    print("\n| CPU a cycle, turns of the yardstick | now | reference | now / reference |\n|---|---:|---:|---:|")
    for name in SHOWN:
        print(f"| {name} | {one.shares[name]:.3f} | {reference[name]:.3f} | {one.shares[name] / reference[name]:.2f} |")

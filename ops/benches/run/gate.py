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
HELD = ("agent", "consumers", "nats-server", "all")
"""What has a limit: the processes that work for each cycle, and the sum with the others."""
WARM, CYCLES = 200, 600
"""Cycles before the measured ones, and those: imports, caches and the first checkpoints are over."""
REST = 0.03
"""Seconds between two turns of the yardstick: it takes a twentieth of a core."""
CLEAR, TIMES = 1.05, 3
"""Where the mean of a process is more than `CLEAR` times its reference there is another run, up to so many. 16 runs of
the same code lay between 0.84 and 1.2 times their median, with a standard deviation of 5 to 8 %, so a run of code
that costs a quarter more lies above `CLEAR`."""
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
    while len(found) < TIMES and (not found or beyond(found, reference, CLEAR)):
        one = _shares()
        found.append(one.shares)
        _show(one, reference)
    if not (risen := beyond(found, reference, RISE)):
        return 0
    print(
        f"ops/bench run: a cycle costs more than {RISE:g} times the reference ({', '.join(risen)}): find out why, "
        "or store the new cost with ops/bench run --renew",
        file=sys.stderr,
    )
    return 1


def renew() -> int:
    """Store the medians of several runs."""
    found = []
    for _ in range(RENEWING):
        found.append(_shares())
        print(", ".join(f"{name} {share:.3f}" for name, share in found[-1].shares.items()), flush=True)
    shares = {name: round(statistics.median(one.shares[name] for one in found), 3) for name in HELD}
    told = {
        "renewed by": "ops/bench run --renew",
        "what": f"CPU of a cycle of {AGENTS} agents with a no-op tool, in turns of the yardstick",
        "shares": shares,
    }
    REFERENCE.write_text(json.dumps(told, indent=2) + "\n")
    return 0


def beyond(found: list[dict[str, float]], reference: Mapping[str, float], limit: float) -> list[str]:
    """Each process whose mean share is more than `limit` times its reference, with how many times."""
    times = {name: statistics.mean(shares[name] for shares in found) / reference[name] for name in HELD}
    return [f"{name} {ratio:.2f}" for name, ratio in times.items() if ratio > limit]


def _shares() -> Shares:
    with fresh_home() as directory, Yardstick(Path(directory)) as yardstick:
        measured = measure(AGENTS, "no-op", lambda run: _cycles(run, CYCLES, yardstick), lambda run: _cycles(run, WARM))
        turn = yardstick.seconds / yardstick.turns * 1000
    return Shares(measured, turn, {name: measured.cpu[name] / turn for name in HELD})


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
    for name in HELD:
        print(f"| {name} | {one.shares[name]:.3f} | {reference[name]:.3f} | {one.shares[name] / reference[name]:.2f} |")

"""What an agent costs beside others: memory, latency, CPU per cycle for 1, 10, 100, 1,000 agents of one process, at the
same offered rate; and what a cycle costs with 1 thousand to 1 million cycles in the store.

Real runs under strict durability. CPU is of the whole process between two moments, per cycle recorded between them; it
begins after every agent has had its first cycle. `cycle` is what Conch adds: from the moment a cycle begins to think
until its last fact is stored, less the mind's, the tool's and the checks' own time. `recorded`: from the act to its
experience, both by the stream's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from history import fill_store
from runs import CONCH, fresh_home, fsync_ms, options, percentile

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.cli.common import embedded_server
from conch.config import Settings
from conch.home import Home
from conch.workspace import fill
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
PROCESSES = ("agent", "consumers", "nats-server")
NO_OP = 'TOOL: filesystem(operation="exists", path="README.md")\n'
HEAD = (
    "| agents | cycles/s | first row s | CPU ms a cycle: agents | consumers | server | all "
    "| agents' process MiB | KiB an agent | cycle p50 ms | p99 | recorded p50 ms | p99 |"
)


@dataclass(frozen=True)
class Moment:
    """A run's processes at one time."""

    time: float
    cpu: dict[str, float]
    rss: int
    """Of the agent process, bytes."""


def moment(home: Path, run: int) -> Moment:
    """Now."""
    state = json.loads((home / "run.json").read_text())
    pids = {one["name"]: one["pid"] for one in state["processes"]} | {"run": run}
    cpu = {}
    for name, pid in pids.items():
        times = psutil.Process(pid).cpu_times()
        cpu[name] = times.user + times.system
    return Moment(time.time(), cpu, psutil.Process(pids["agent"]).memory_info().rss)


def lived(home: Path, agents: int, rate: float, seconds: float, options: list[str]) -> tuple[float, Moment, Moment]:
    """A run from its command to its end: seconds to its first row, and the two moments measured between."""
    interval = agents / rate
    command = [str(CONCH), "run", "--home", str(home), "--json", "--interval", str(interval), *options]
    if agents > 1:
        command += ["--agents", str(agents)]
    began = time.time()
    with (home / "rows").open("wb") as rows, (home / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=rows, stderr=said)
    while not (home / "rows").stat().st_size:
        if process.poll() is not None:
            sys.exit(f"{' '.join(command)} ended: {(home / 'said').read_text()}")
        time.sleep(0.01)
    first = time.time() - began
    time.sleep(interval + 3.0)
    before = moment(home, process.pid)
    time.sleep(max(seconds, interval))
    after = moment(home, process.pid)
    process.send_signal(signal.SIGTERM)
    process.wait()
    return first, before, after


async def facts(home: Path, since: float, until: float) -> list[dict[type[Event], tuple[float, Event]]]:
    """Of each cycle whose act was stored between: by kind, when the stream stored it, and the event."""
    server = embedded_server(Home(home), Settings())
    await server.start()
    found: dict[tuple[str, int | None], dict[type[Event], tuple[float, Event]]] = {}
    try:
        async with JetStreamBus(Access(server.url, token=server.token)) as bus:
            async for delivery in bus.read([subject_filter(kind) for kind in KINDS]):
                if delivery.time >= since - 5:
                    event = decode(delivery.data)
                    found.setdefault((event.agent, event.cycle), {}).setdefault(type(event), (delivery.time, event))
    finally:
        await server.stop()
    return [kinds for kinds in found.values() if ActionTaken in kinds and since <= kinds[ActionTaken][0] < until]


def latencies(cycles: list[dict[type[Event], tuple[float, Event]]]) -> tuple[list[float], list[float]]:
    """Milliseconds that Conch added to each cycle; from each act to its record."""
    overhead, recorded = [], []
    for kinds in cycles:
        if set(kinds) < set(KINDS):
            continue
        thought, decided, taken = kinds[ThoughtFormed][1], kinds[ActionDecided][1], kinds[ActionTaken][1]
        assert isinstance(decided, ActionDecided)
        assert isinstance(taken, ActionTaken)
        whole = (kinds[CycleReflected][0] - thought.time.timestamp()) * 1000
        overhead.append(whole - decided.ms - taken.ms["act"])
        recorded.append((kinds[ExperienceRecorded][0] - kinds[ActionTaken][0]) * 1000)
    return overhead, recorded


def row(name: str, first: float, before: Moment, after: Moment, cycles: list, alone: int | None, agents: int) -> str:
    """A line of the table."""
    count, seconds = len(cycles), after.time - before.time
    cpu = {name: (after.cpu[name] - before.cpu[name]) / max(1, count) * 1000 for name in after.cpu}
    overhead, recorded = latencies(cycles)
    each = "" if alone is None or agents == 1 else f"{(after.rss - alone) / (agents - 1) / 1024:.0f}"
    shown = [f"{cpu[name]:.2f}" for name in PROCESSES] + [f"{sum(cpu.values()):.2f}"]
    times = [f"{percentile(values, share):.1f}" for values in (overhead, recorded) for share in (0.5, 0.99)]
    cells = [name, f"{count / seconds:.1f}", f"{first:.2f}", *shown, f"{after.rss / 2**20:.0f}", each, *times]
    return f"| {' | '.join(cells)} |"


def one(agents: int, rate: float, seconds: float, mind: str, stored: int = 0) -> tuple[float, Moment, Moment, list]:
    """One run in a home of its own."""
    with fresh_home() as directory:
        home = Path(directory, "home")
        Home(home).make()
        (home / "conch.yaml").write_text("agent: echo\n")  # no goals: their checks are not ours to measure
        fill(home / "workspace")
        if stored:
            fill_store(home, stored)
        options = ["--mind", "reflex"]
        if mind == "no-op":
            script = Path(directory, "no-op.txt")
            script.write_text(NO_OP * 100_000)
            options = ["--script", str(script)]
        first, before, after = lived(home, agents, rate, seconds, options)
        return first, before, after, asyncio.run(facts(home, before.time, after.time))


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
        alone = after.rss if agents == 1 else alone
        print(row(f"{agents:,}", first, before, after, cycles, alone, agents), flush=True)
    for stored in [int(number) for number in chosen.stored.split(",") if number]:
        first, before, after, cycles = one(1, chosen.rate, chosen.seconds, chosen.mind, stored)
        print(row(f"1, {stored:,} stored", first, before, after, cycles, None, 1), flush=True)


if __name__ == "__main__":
    main()

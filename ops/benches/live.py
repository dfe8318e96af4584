"""A real run that a benchmark watches: its processes at two times, and the facts that it stored between them."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from runs import CONCH, fresh_home

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
NO_OP = 'TOOL: filesystem(operation="exists", path="README.md")\n'
LINES = 100_000
"""Lines of the scripted mind: more cycles than any agent lives through in a benchmark."""
Cycle = dict[type[Event], tuple[float, Event]]
"""Facts of a cycle, by kind: when the stream stored it, and the event."""


@dataclass(frozen=True)
class Moment:
    """A run's processes at one time."""

    time: float
    """Seconds since the epoch."""
    cpu: dict[str, float]
    """Seconds of processor time by kind of process, with the programs that it started and that have ended."""
    rss: dict[str, int]
    """Bytes by kind of process. Forked processes share pages, and each counts them whole."""


class LiveRun:
    """A run of `conch run` that goes on."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes], began: float) -> None:
        self.home, self.began, self._process = home, began, process
        self._rows = (home / "rows").open("rb")
        self._recorded = 0

    def until_each(self, agents: int) -> float:
        """Wait until each of so many agents has a recorded cycle; seconds from the command to the first of them all."""
        found: set[str] = set()
        first = 0.0
        with (self.home / "rows").open() as rows:
            rest = ""
            while len(found) < agents:
                rest += rows.read()
                *lines, rest = rest.split("\n")
                if lines and not first:
                    first = time.time() - self.began
                found |= {json.loads(line)["agent"] for line in lines}
                self.check()
                time.sleep(0.01)
        return first

    def recorded(self) -> int:
        """Experiences that it printed."""
        self._recorded += self._rows.read().count(b"\n")
        return self._recorded

    def check(self) -> None:
        """End the benchmark where the run has ended."""
        if self._process.poll() is not None:
            sys.exit(f"conch run ended with {self._process.returncode}: {(self.home / 'said').read_text()}")

    def moment(self) -> Moment:
        """Now."""
        self.check()
        cpu: dict[str, float] = {}
        rss: dict[str, int] = {}
        for name, process in self.processes().items():
            times, kind = process.cpu_times(), kind_of(name)
            cpu[kind] = cpu.get(kind, 0.0) + times.user + times.system
            if name != "run":  # the others are its children
                cpu[kind] += times.children_user + times.children_system
            rss[kind] = rss.get(kind, 0) + process.memory_info().rss
        return Moment(time.time(), cpu, rss)

    def processes(self) -> dict[str, psutil.Process]:
        """By name; `run` is the supervisor."""
        state = json.loads((self.home / "run.json").read_text())
        pids = {one["name"]: one["pid"] for one in state["processes"]} | {"run": self._process.pid}
        return {name: psutil.Process(pid) for name, pid in pids.items()}

    def end(self) -> None:
        """Ask it to end, and wait. A second call does nothing."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._rows.close()


def kind_of(process: str) -> str:
    """`agent` for every agent process, for any other process its name."""
    return "agent" if process.startswith("agent-") else process


@contextmanager
def live(
    agents: int,
    mind: str,
    interval: float = 0.0,
    prepare: Callable[[Path], None] = lambda home: None,
    processes: int = 1,
    more: Sequence[str] = (),
) -> Iterator[LiveRun]:
    """A run in a fresh home without goals, whose checks would be measured too; ended and deleted with its context.

    `mind`: `no-op`, the scripted mind with a tool that does nothing, or `reflex`. `interval`: seconds between the
    cycles of an agent. `processes`: over which the agents are spread. `more`: further options of the run.
    """
    with fresh_home() as directory:
        home = Path(directory, "home")
        Home(home).make()
        (home / "conch.yaml").write_text("agent: echo\ncycle: {sleep: {first: 0}}\n")  # cycles are what is measured
        fill(home / "workspace")
        prepare(home)
        command = [str(CONCH), "run", "--home", str(home), "--json", "--interval", str(interval), *more]
        if mind == "no-op":
            script = Path(directory, "no-op.txt")
            script.write_text(NO_OP * LINES)
            command += ["--script", str(script)]
        else:
            command += ["--mind", mind]
        if agents > 1:
            command += ["--agents", str(agents), "--processes", str(processes)]
        began = time.time()
        with (home / "rows").open("wb") as rows, (home / "said").open("wb") as said:
            run = LiveRun(home, subprocess.Popen(command, stdout=rows, stderr=said), began)
        try:
            yield run
        finally:
            run.end()


def facts(home: Path) -> list[Cycle]:
    """Of each cycle of a run that has ended."""
    return asyncio.run(_facts(home))


def acted(cycles: list[Cycle], since: float, until: float) -> list[Cycle]:
    """Those whose act was stored between these times."""
    return [kinds for kinds in cycles if ActionTaken in kinds and since <= kinds[ActionTaken][0] < until]


async def _facts(home: Path) -> list[Cycle]:
    found: dict[tuple[str, int], Cycle] = {}
    server = embedded_server(Home(home), Settings())
    await server.start()
    try:
        async with JetStreamBus(Access(server.url, token=server.token)) as bus:
            async for delivery in bus.read([subject_filter(kind) for kind in KINDS]):
                event = decode(delivery.data)
                if event.cycle is not None:
                    found.setdefault((event.agent, event.cycle), {}).setdefault(type(event), (delivery.time, event))
    finally:
        await server.stop()
    return list(found.values())


def latencies(cycles: list[Cycle]) -> tuple[list[float], list[float]]:
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

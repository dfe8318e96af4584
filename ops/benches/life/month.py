"""A month of an agent's life in fake time: what grows, and whether a recall becomes slower.

An agent of the product with a scripted mind, its tools, notes, measured effects and its long memory, without a pause
between two cycles; each act's reward is drawn. The bus is in memory and stamps each event with a clock that goes on by
CYCLE_SECONDS with each cycle, and the stream is trimmed by the time of its events. The consumers and their store are
left out: they have benches of their own.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles

import psutil
from lives import UID, ReplyMind

from conch.bus import MemoryBus, Stored, older_than, shared_subscription
from conch.config import Settings
from conch.cycle.hosting.factory import AgentFactory
from conch.cycle.hosting.host import AgentHost
from conch.experience.assemble import ExperienceContext, assemble, judge
from conch.home import Home
from conch.library.preparing import Order
from conch.memory import MEMORY_FILE, LongTermMemory
from conch.minds import Situation
from conch.processes.messages import AgentsSpec, AgentStart
from conch.values import Values
from conch.workspace import fill, record_filled
from conch_schemas import ActionTaken, Event, Part, Score, ThoughtFormed, decode, encode, subject_of

CYCLES, QUICK_CYCLES = 260_000, 100
CYCLE_SECONDS = 10.0
"""Of fake time: 260,000 cycles are 30 days."""
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
POINTS = 10
RECALLS = 200
"""Recalls at each point."""
TRIMMED_EACH = 500
"""Cycles between two trimmings of the stream: an hour and a half."""
KEPT_DAYS = 0.1
"""Days that events stay on the stream: 864 cycles, so that they take little of the process's memory."""
MEMORIES = (50_000, 5_000)
"""`memory.most`: the default, and one that is reached early."""
WORDS = 20_000
"""Words of the vocabulary; the n-th is drawn with a weight of 1 / n (Zipf)."""
PARTS = (Part(component="format", weight=1.0, range=(-1, 0.5), scorer="bench"),)
FILES = 60
"""Files that the agent writes, again and again."""


class Talker:
    """Draws texts of unevenly frequent words; the draws depend on the seed alone."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self._words = ["".join(draw.choices("bcdfglmnprstv", k=2)) + f"{number:x}o" for number in range(WORDS)]
        self._weights = [0.0]
        for number in range(WORDS):
            self._weights.append(self._weights[-1] + 1 / (number + 1))
        del self._weights[0]

    def text(self, draw: random.Random, words: int) -> str:
        """So many words."""
        return " ".join(draw.choices(self._words, cum_weights=self._weights, k=words))

    def reply(self, situation: Situation, draw: random.Random) -> str:
        """A decision: files are written, read and searched, notes are taken, at times nothing is done."""
        kind, name = draw.random(), f"log/file{draw.randrange(FILES)}.md"
        if kind < 0.25:
            return f'TOOL: filesystem(operation="write", path="{name}", content="{self.text(draw, 40)}")'
        if kind < 0.6:
            return f'TOOL: filesystem(operation="exists", path="{name}")'
        if kind < 0.8:
            return f'TOOL: filesystem(operation="read", path="{name}")'
        if kind < 0.9:
            return f'TOOL: notes(operation="remember", text="{self.text(draw, 12)}")'
        return f"DO_NOTHING: {self.text(draw, 6)}"


@dataclass(frozen=True)
class Point:
    """What stands at one time of the month."""

    cycle: int
    rss: int
    """Bytes of memory of the process, without the stream's, which is the server's in a run."""
    files: int
    """Bytes of the home."""
    stream: int
    """Bytes of the stream's events."""
    memories: int
    recall: tuple[float, float]
    """p50 and p99 in processor seconds: the wall clock of a shared machine says little."""
    cycle_cpu: float
    """Processor seconds of a cycle since the point before."""

    def row(self) -> str:
        """Its line."""
        day = self.cycle * CYCLE_SECONDS / 86_400
        return (
            f"  day {day:4.1f}, {self.cycle:>7,} cycles: process {self.rss / 2**20:5.0f} MiB, home "
            f"{self.files / 2**20:5.1f} MiB, stream {self.stream / 2**20:5.1f} MiB, {self.memories:>6,} memories, "
            f"recall p50 {self.recall[0] * 1e3:5.2f} ms, p99 {self.recall[1] * 1e3:5.2f} ms CPU, "
            f"{self.cycle_cpu * 1e3:.1f} ms CPU a cycle"
        )


class MonthBus(MemoryBus):
    """Stamps the events with the fake clock, trims the stream, and looks at what there is at each point."""

    def __init__(self, home: Path, settings: Settings, cycles: int) -> None:
        super().__init__()
        self._home, self._settings, self._each = home, settings, max(1, cycles // POINTS)
        self._cycles, self._used = 0, time.process_time()
        self._talker, self._draw = Talker(1), random.Random(7)
        self.points: list[Point] = []

    @property
    def _now(self) -> float:
        return START + self._cycles * CYCLE_SECONDS

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        """Store the event as one of the fake time."""
        if ThoughtFormed.TYPE in subject:
            self._cycles += 1
            await self._begin()
        event = json.loads(data) | {"time": datetime.fromtimestamp(self._now, UTC).isoformat()}
        stored = await super().publish(subject, json.dumps(event).encode(), id=id)
        if (delivery := self.journal.events.get(stored.seq)) is not None:
            self.journal.events[stored.seq] = delivery._replace(time=self._now)
        if ActionTaken.TYPE in subject:
            await self._record(decode(json.dumps(event).encode()))
        return stored

    async def _record(self, act: Event) -> None:
        """Publish the act's experience, with a reward that is drawn."""
        assert isinstance(act, ActionTaken)
        value = self._draw.uniform(-1, 0.5)
        score = Score(component="format", value=value, range=(-1, 0.5), status="scored", scorer="bench", version="1")
        recorded = datetime.fromtimestamp(self._now, UTC)
        verdict = judge("w1", PARTS, [score])
        fact = assemble(act, 1, verdict, ExperienceContext(), revision=1, recorded=recorded)
        await super().publish(subject_of(fact), encode(fact), id=fact.id)

    async def _begin(self) -> None:
        if self._cycles % TRIMMED_EACH == 0:
            first = await older_than(self, await self.state(), days=self._settings.bus.keep.days, now=self._now)
            await self.trim(first)
            for id in [id for id, seq in self.journal.ids.items() if seq < first]:
                del self.journal.ids[id]
        if self._cycles % self._each == 0:
            self.points.append(self._looked())
            print(self.points[-1].row(), flush=True)
            self._used = time.process_time()

    def _looked(self) -> Point:
        cpu = (time.process_time() - self._used) / self._each
        stream = sum(len(one.data) for one in self.journal.events.values())
        store = LongTermMemory(self._home / "agents" / "echo" / MEMORY_FILE)
        times = []
        for _ in range(RECALLS):
            cue, began = self._talker.text(self._draw, 12), time.thread_time()
            store.recall(cue, 5, now=self._now)
            times.append(time.thread_time() - began)
        count = len(store)
        store.close()
        cuts = quantiles(times, n=100)
        size = sum(file.stat().st_size for file in self._home.rglob("*") if file.is_file())
        rss = psutil.Process().memory_info().rss - stream
        return Point(self._cycles, rss, size, stream, count, (cuts[49], cuts[98]), cpu)


async def lived(home: Path, cycles: int, most: int) -> Sequence[Point]:
    """A life of so many cycles; what stood at each point."""
    settings = Settings.model_validate(
        {
            "cycle": {"interval": 0, "reflect_every": 0, "material": False},
            "tools": {"sandbox": "off"},
            "memory": {"most": most, "keep": "always"},
            "bus": {"keep": {"days": KEPT_DAYS}},
        }
    )
    workspace = home / "workspace"
    record_filled(home, home, workspace)
    fill(workspace)
    Home(home).agent_dir(settings.agent).mkdir(parents=True)
    start = AgentStart(name=settings.agent, agentuid=UID)
    spec = AgentsSpec(cycles=cycles, agents=(start,), resting={}, workspace=workspace, alone=True, values=Values())
    async with (
        MonthBus(home, settings, cycles) as bus,
        shared_subscription(bus) as shared_events,
        AgentFactory(Order(spec, settings, home), shared_events, ReplyMind(Talker(1).reply, 1)) as agents,
    ):
        await AgentHost(shared_events, agents.agent_runner).run()
        return bus.points


def measure(quick: bool, cycles: int = CYCLES) -> None:
    """Print what stands at ten points of the month, for each bound of the memory. `quick`: few cycles."""
    for most in MEMORIES:
        print(f"memory.most {most:,}, bus.keep.days {KEPT_DAYS:g}:", flush=True)
        with tempfile.TemporaryDirectory(prefix="conch-bench-") as home:
            asyncio.run(lived(Path(home), QUICK_CYCLES if quick else cycles, most))

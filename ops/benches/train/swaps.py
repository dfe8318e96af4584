"""Swaps of the adapter that acts, with kill -9 of the agent and of its engine at random moments.

The agent is `conch agent run` on a nats-server of its own; its engine is a program that speaks vLLM's API and replies
by the weights that it was given, so each act tells which weights decided it. Then, without kills, a tiny base in torch.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from runs import CONCH, percentile

from conch.bus import Bus, PolicyRecord, Reader
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.home import Home
from conch.training import AdapterShelf, ShelvedAdapter, move_pointer, promoted, rolled_back
from conch_schemas import ActionDecided, ActionTaken, PolicySet, ThoughtFormed, decode, subject_filter
from tests.adapter_engine import BASE, mark_of
from tests.shelved import shelve
from tests.swaps import EngineProcess
from train.torch_engine import torch_engine

TOKEN = "a-token-of-the-bench"
AGENT = "echo-1"
SWAPS, QUICK_SWAPS = 1000, 8
TORCH_SWAPS, QUICK_TORCH_SWAPS = 40, 4
INTERVAL = 0.02
"""Seconds from one cycle to the next."""
AGENT_SHARE, ENGINE_SHARE = 0.1, 0.2
"""Shares of the swaps in which the agent's processes, or the engine, are killed."""
KILL_SECONDS = 0.3
"""A kill comes so long after the move of the pointer at most: within the pointer's reading, the loading, the probe, the
first decisions."""
ROLLBACK_SHARE = 0.4
PATIENCE = 120.0
"""Seconds until an act under the adapter that the pointer names; then something hangs."""


@dataclass
class SwapTimes:
    """What was done, and how long it took where nothing was killed."""

    swaps: int = 0
    swap_ms: list[float] = field(default_factory=list)
    rollback_ms: list[float] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    killed_ms: list[float] = field(default_factory=list)
    """From the move to an act under the adapter by a process that was started after the kill."""
    strays: int = 0
    """Acts under another adapter than the pointer's, after the first one under that and before the next move."""


class AgentProcess:
    """`conch agent run`, in a group of its own."""

    def __init__(self, home: Path, bus: str) -> None:
        self._home = home
        self._env = os.environ | {"CONCH_BUS__URL": bus, "CONCH_BUS__TOKEN": TOKEN}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it acts until it is killed."""
        acting = ["--agents", "1..1", "--interval", str(INTERVAL)]
        command = [str(CONCH), "agent", "run", "--home", str(self._home), *acting]
        with (self._home / "said.txt").open("ab") as said:
            self._process = subprocess.Popen(
                command, env=self._env, stdout=said, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def said(self) -> str:
        """Its last words."""
        return (self._home / "said.txt").read_text()[-2000:]

    def kill(self) -> None:
        """Kill it and its processes with signal 9. Ends the bench where it had ended by itself."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise SystemExit(f"the agent ended by itself: {self.said()}")
        family = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for one in family:
            one.send_signal(signal.SIGKILL)
        self._process.wait()
        psutil.wait_procs(family[1:], timeout=10)


class LiveSwaps:
    """Moves the pointer of a live agent and waits for its acts."""

    def __init__(
        self,
        bus: Bus,
        reader: Reader,
        agent: AgentProcess,
        made: Sequence[ShelvedAdapter],
        engine: EngineProcess | None,
    ) -> None:
        """`engine`: that is killed; None: nothing is killed."""
        self._bus, self._reader, self._agent, self._made, self._engine = bus, reader, agent, made, engine
        self._draw = random.Random(0)
        self._pointer = PolicyRecord()
        self.times = SwapTimes()

    async def swap(self) -> None:
        """One move, forth or back, and its first act; a kill may come in between."""
        times, draw = self.times, self._draw
        share = 1.0 if self._engine is None else ROLLBACK_SHARE
        back = self._pointer.previous is not None and draw.random() < share
        others = [one for one in self._made if one.digest != self._pointer.adapter]
        chosen = draw.choice(others)
        drawn = draw.random()
        killed = "" if self._engine is None or drawn >= AGENT_SHARE + ENGINE_SHARE else "agent"
        killed = "engine" if killed and drawn >= AGENT_SHARE else killed

        def change(before: PolicyRecord) -> PolicyRecord:
            if back and before.adapter is not None:
                return rolled_back(before, before.adapter, why="bench")
            return promoted(before, chosen.digest, chosen.identity.generation, why="bench")

        _, self._pointer = await move_pointer(self._bus, AGENT, change)
        began = time.perf_counter()
        since = await self._kill(killed, draw.random() * KILL_SECONDS) if killed else 0.0
        await self._acted(since)
        took = (time.perf_counter() - began) * 1000
        (times.killed_ms if killed else times.rollback_ms if back else times.swap_ms).append(took)
        times.swaps += 1

    async def begin(self) -> None:
        """Wait for the first act of the base."""
        await self._acted()

    async def settle(self, acts: int) -> None:
        """Some more acts: all are to be under the pointer's adapter."""
        for _ in range(acts):
            self.times.strays += (await self._next())[0] != self._pointer.adapter

    async def _kill(self, what: str, after: float) -> float:
        """Kill it, and start it again; when it was dead, in seconds since the epoch."""
        await asyncio.sleep(after)
        self.times.kills[what] += 1
        one = self._agent if what == "agent" else self._engine
        assert one is not None
        await asyncio.to_thread(one.kill)
        dead = time.time()
        await asyncio.to_thread(one.start)
        return dead

    async def _acted(self, since: float = 0.0) -> None:
        """Wait for a decision under the adapter that the pointer names, made since then."""
        try:
            async with asyncio.timeout(PATIENCE):
                found = await self._next(since)
                while found != (self._pointer.adapter, True):
                    found = await self._next(since)
        except TimeoutError:
            raise SystemExit(f"no act for {PATIENCE:g} s, after {self.times}: {self._agent.said()}") from None

    async def _next(self, since: float = 0.0) -> tuple[str | None, bool]:
        """The adapter of the next decision, and whether it was made since then."""
        (delivery,) = await self._reader.get(most=1)
        decided = decode(delivery.data)
        assert isinstance(decided, ActionDecided)
        return decided.decoding.adapter if decided.decoding is not None else None, delivery.time >= since


@dataclass
class SwapCounts:
    """What the stream says of all acts."""

    acts: int = 0
    wrong: int = 0
    """Acts that name another adapter than the one whose weights replied, in their record or their policy."""
    failed: int = 0
    """Cycles without exactly one decision and one act, and numbers that lack."""
    by_base: int = 0
    """Acts of the base once an adapter was to act."""

    @classmethod
    async def of(cls, bus: Bus, made: Sequence[ShelvedAdapter], *, marked: bool) -> SwapCounts:
        """Count. `marked`: each reply bears the mark of its weights."""
        marks: dict[str | None, str] = {None: mark_of(None)} | {one.digest: mark_of(one.folder) for one in made}
        kinds = (ThoughtFormed, ActionDecided, ActionTaken, PolicySet)
        content: dict[str, str | None] = {}
        thoughts, decisions, acts = set[int](), Counter[int](), Counter[int]()
        counts, adapted = cls(), False
        async for delivery in bus.read([subject_filter(kind, AGENT) for kind in kinds]):
            event = decode(delivery.data)
            if isinstance(event, PolicySet):
                content[str(event.policy)] = event.adapter
            elif isinstance(event, ThoughtFormed):
                thoughts.add(event.cycle or 0)
            elif isinstance(event, ActionDecided):
                adapter = event.decoding.adapter if event.decoding is not None else None
                mark = event.raw.split()[1] if marked else marks[adapter]
                counts.wrong += marks[adapter] != mark or content.get(str(event.policy)) != adapter
                counts.by_base += adapted and adapter is None
                adapted = adapted or adapter is not None
                decisions[event.cycle or 0] += 1
            elif isinstance(event, ActionTaken):
                counts.acts += 1
                acts[event.cycle or 0] += 1
        whole = sorted(acts)[:-1] if len(acts) < len(thoughts) else sorted(acts)  # the last one is under way
        counts.failed = sum(acts[one] != 1 or decisions[one] != 1 for one in whole)
        counts.failed += len(set(range(len(acts))) ^ set(acts))
        return counts


def measure(quick: bool) -> None:
    """Print all rows. `quick`: few swaps, no figures to quote."""
    asyncio.run(_killed(QUICK_SWAPS if quick else SWAPS))
    asyncio.run(_in_torch(QUICK_TORCH_SWAPS if quick else TORCH_SWAPS))


async def _killed(swaps: int) -> None:
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        home = _home(Path(directory) / "home")
        made = [shelve(AdapterShelf(home.adapters), home.agentuid(AGENT), number) for number in range(1, 5)]
        engine = EngineProcess()
        engine.start()
        try:
            _configure(home, engine.url, BASE)
            times, counts = await _swapped(Path(directory), home, made, swaps, engine)
        finally:
            engine.kill()
    _tell("kill -9 at random", times, counts)


async def _in_torch(swaps: int) -> None:
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        home = _home(Path(directory) / "home")
        async with torch_engine(Path(directory), home, AGENT) as (mind, made):
            _configure(home, mind.base_url, mind.model, mind.api_key.get_secret_value() if mind.api_key else "")
            times, counts = await _swapped(Path(directory), home, made, swaps, None)
    _tell("a tiny base in torch", times, counts)


async def _swapped(
    place: Path, home: Home, made: Sequence[ShelvedAdapter], swaps: int, engine: EngineProcess | None
) -> tuple[SwapTimes, SwapCounts]:
    async with _bus(place / "nats") as (bus, url):
        agent = AgentProcess(home.path, url)
        async with bus.follow([subject_filter(ActionDecided, AGENT)], after=0) as reader:
            agent.start()
            try:
                live = LiveSwaps(bus, reader, agent, made, engine)
                await live.begin()
                for _ in range(swaps):
                    await live.swap()
                    await live.settle(2)
            finally:
                agent.kill()
        return live.times, await SwapCounts.of(bus, made, marked=engine is not None)


@asynccontextmanager
async def _bus(directory: Path) -> AsyncIterator[tuple[Bus, str]]:
    server = EmbeddedServer(directory, token=TOKEN, strict=False, max_bytes=2**32)
    await server.start()
    try:
        async with JetStreamBus(Access(server.url, token=TOKEN), name="bench") as bus:
            yield bus, server.url
    finally:
        await server.stop()


def _home(path: Path) -> Home:
    home = Home(path)
    home.make()
    home.agentuid(AGENT)
    return home


def _configure(home: Home, url: str, model: str, key: str = "") -> None:
    lines = ["kind: openai", f"base_url: {url}", f"model: {model}", "constrain: 'off'", "adapters: vllm", "timeout: 20"]
    lines += ["max_tokens: 24", "prompt_tokens: 2000", *([f"api_key: {key}"] if key else [])]
    home.config_file.write_text("agent: echo\nmind:\n" + "".join(f"  {line}\n" for line in lines))


def _tell(name: str, times: SwapTimes, counts: SwapCounts) -> None:
    kills = ", ".join(f"{what} {number}" for what, number in sorted(times.kills.items())) or "none"
    print(
        f"{name}: {times.swaps} swaps, kills: {kills}; {counts.acts} acts, under a wrong digest {counts.wrong}, "
        f"under another adapter than the pointer's {times.strays}, by the base {counts.by_base}; "
        f"failed cycles {counts.failed}",
        flush=True,
    )
    for what, taken in (
        ("a swap", times.swap_ms),
        ("a rollback", times.rollback_ms),
        ("a swap with a kill", times.killed_ms),
    ):
        if taken:
            print(
                f"{name}: {what} to its first act, n {len(taken)}: p50 {statistics.median(taken):.0f} ms, "
                f"p99 {percentile(taken, 0.99):.0f} ms, most {max(taken):.0f} ms",
                flush=True,
            )

"""Swaps of the adapter that acts, while the agent and its engine are killed at random points."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from conch.bus import MemoryBus
from conch.cycle.acting.engine import ServedEngineAdapters
from conch.cycle.acting.proven import ProvenAdapters
from conch.minds import MindFactory
from conch.training import AdapterShelf, ShelvedAdapter, move_pointer, promoted, rolled_back
from conch_schemas import ActionDecided, ActionTaken, PolicySet, ThoughtFormed
from tests.adapter_engine import BASE, mark_of
from tests.shelved import shelve

if TYPE_CHECKING:
    from tests.cycle.conftest import CrashingBus, Life

ROOT = Path(__file__).parents[1]
PUBLISHES_OF_A_CYCLE = 7
"""Thought, claims, decision, act, reflection; a proof and a policy where another adapter decides."""


class EngineProcess:
    """The stand-in as a process of its own; started again, it takes the same port."""

    def __init__(self) -> None:
        self.url, self.kills = "", 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.adapter_engine", str(urlsplit(self.url).port or 0)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()

    def kill(self) -> None:
        """Kill it. A second call does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process, self.kills = None, self.kills + 1


@dataclass
class SwapFigures:
    """What the swaps came to."""

    swaps: int = 0
    acts: int = 0
    wrong: int = 0
    """Acts that name another adapter than the one whose weights replied, in their record or their policy."""
    cycles: int = 0
    failed: int = 0
    """Cycles without exactly one decision and one act."""
    by_base: int = 0
    """Acts of the base although an adapter was to act."""
    agent_kills: int = 0
    engine_kills: int = 0


class Swaps:
    """An agent of an engine, and adapters that take turns."""

    def __init__(self, life: Life, crashing: type[CrashingBus], folder: Path, engine: EngineProcess, seed: int) -> None:
        self._life, self._crashing, self._engine = life, crashing, engine
        self._draw = random.Random(seed)
        self._shelf = AdapterShelf(folder / "adapters")
        self.made: list[ShelvedAdapter] = [shelve(self._shelf, life.agentuid, number) for number in range(1, 5)]
        self.figures = SwapFigures()

    async def swap(self, cycles: int = 3) -> None:
        """Move the pointer forth or back, and run some cycles; the agent, the engine or both die in between."""
        self.figures.swaps += 1
        life, draw = self._life, self._draw
        await self._move()
        until = life.facts(ThoughtFormed)[-1].cycle + 1 + cycles if life.facts(ThoughtFormed) else cycles
        async with self._engine_that_dies(draw.random() * 0.05 if draw.random() < 0.5 else None):
            while draw.random() < 0.5:
                self.figures.agent_kills += 1
                bus = self._crashing(
                    life.journal, draw.randrange(cycles * PUBLISHES_OF_A_CYCLE), stored=draw.random() < 0.5
                )
                try:
                    await self._process(until, bus)
                except bus.death:
                    life.journal.ids.clear()
            await self._process(until, None)

    def count(self) -> SwapFigures:
        """The figures of all swaps so far."""
        figures, life = self.figures, self._life
        marks: dict[str | None, str] = {None: mark_of(None)} | {one.digest: mark_of(one.folder) for one in self.made}
        content = {one.policy: one.adapter for one in life.facts(PolicySet)}
        decided = life.facts(ActionDecided)
        figures.acts, figures.engine_kills = len(decided), self._engine.kills
        figures.wrong = sum(
            marks[one.decoding.adapter] != one.raw.split()[1] or content[one.policy] != one.decoding.adapter
            for one in decided
        )
        numbers = list(range(len(life.facts(ThoughtFormed))))
        figures.cycles = len(numbers)
        taken = [one.cycle for one in life.facts(ActionTaken)]
        figures.failed = sum(
            taken.count(number) != 1 or sum(one.cycle == number for one in decided) != 1 for number in numbers
        )
        figures.by_base = sum(one.decoding.adapter is None for one in decided)
        return figures

    async def _move(self) -> None:
        chosen = self._draw.choice(self.made)
        async with MemoryBus(self._life.journal) as bus:
            await move_pointer(
                bus,
                self._life.settings.agent,
                lambda before: (
                    rolled_back(before, before.adapter, why="worse")
                    if before.previous is not None and before.adapter is not None and self._draw.random() < 0.3
                    else promoted(before, chosen.digest, chosen.identity.generation, why="better")
                ),
            )

    async def _process(self, until: int, bus: MemoryBus | None) -> None:
        """A process of the agent, which knows nothing of what an earlier one proved."""
        life = self._life
        life.configured(
            mind={"kind": "openai", "base_url": self._engine.url, "model": BASE, "constrain": "off", "adapters": "vllm"}
        )
        engine = ServedEngineAdapters(life.settings.mind)
        life.adapters = ProvenAdapters(engine, self._shelf)
        async with MindFactory(life.settings.mind) as factory:
            life.mind = factory.make(seed=0, memory=life.workspace.with_name("reflex.npz"))  # type: ignore[assignment]
            try:
                await life.run(until, bus)
            finally:
                await engine.close()

    @contextlib.asynccontextmanager
    async def _engine_that_dies(self, after: float | None) -> AsyncIterator[None]:
        """The engine is killed so many seconds from now, and started again; None: it lives on."""

        async def die() -> None:
            if after is not None:
                began = time.monotonic()
                while time.monotonic() - began < after:
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(self._engine.kill)
                await asyncio.to_thread(self._engine.start)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(die(), name="engine")
            yield

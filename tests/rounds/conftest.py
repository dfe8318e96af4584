"""A lineage with recorded cycles, an engine that replies by the adapter, and a stand-in of the training child."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conch.actions import Registry, parse
from conch.bus import Bus, MemoryBus, MemoryJournal
from conch.config import Settings
from conch.cycle.decide import prompt_digest
from conch.errors import AdapterError
from conch.experience import ExperienceStore, store_location
from conch.forks import ForkMinds
from conch.home import Home
from conch.minds import Completion, MindWrapper, Prompt, ScriptedMind, Situation
from conch.rounds import LineageLog, LineageTrainer, RoundPlan, prepare_round
from conch.snapshots import SNAPSHOTS, SnapshotKeeper
from conch.testing import make_action_taken
from conch.tools import BUILTIN_TOOLS
from conch.training import ProbeLine, ShelvedAdapter
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    Cut,
    Decoding,
    Event,
    Outcome,
    Part,
    PolicySet,
    PromptMessage,
    RewardAssigned,
    Score,
    Usage,
    WeightsSet,
    consequence_id,
    cycle_event_id,
    decode,
)

AGENT = "echo"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
GOOD = 'TOOL: filesystem(operation="list", path=".")'
BAD = "I look at the files that are here now"
SYSTEM = "You are echo."
REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
WEIGHTS = {"format": (0.5, -1.0, 0.5), "execution": (0.3, -0.5, 1.0), "goal": (0.2, -1.0, 1.0)}
STAND_IN = Path(__file__).parent / "stand_in.py"


class AdaptedMind(MindWrapper):
    """Replies by the adapter that it is asked under: `replies` by digest, "" for the base."""

    def __init__(self, mind: ScriptedMind, replies: dict[str, str]) -> None:
        super().__init__(mind)
        self._replies = replies

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply of the adapter's digest; of one that is not named that of "*"."""
        adapter = prompt.adapter.digest if prompt.adapter is not None else ""
        text = self._replies.get(adapter, self._replies["*"]) if adapter else self._replies[""]
        known = Decoding(engine="stub", model="m", adapter=adapter or None, tokens=len(text.split()))
        usage = Usage(output_tokens=len(text.split()))
        return Completion(text=text, finish_reason="stop", usage=usage, model="m", ms=0.0, decoding=known)


class StubEngine:
    """An engine that serves every adapter at once."""

    kind = "stub"

    def __init__(self, minds: ForkMinds, refuses: str) -> None:
        self.minds, self._refuses = minds, refuses

    async def load(self, adapter: ShelvedAdapter) -> None:
        """Records the probe; refuses what the test says."""
        if self._refuses:
            raise AdapterError(self._refuses)
        if not adapter.probe(self.kind):
            from conch.training import AdapterShelf

            line = ProbeLine(messages=(PromptMessage(role="user", content="What now?"),), base=BAD, adapter=GOOD)
            AdapterShelf(adapter.folder.parent).record_probe(adapter.digest, self.kind, [line])


@dataclass
class Trained:
    """A home with a lineage that can be trained."""

    home: Home
    store: ExperienceStore
    bus: Bus
    place: Path
    settings: dict[str, Any]
    replies: dict[str, str] = field(default_factory=lambda: {"": BAD, "*": GOOD})
    refuses: str = ""
    """Why the engine serves no adapter; empty: it does."""
    position: int = 0
    cycles: int = 0

    @property
    def config(self) -> Settings:
        """The settings of the run."""
        mind = {"kind": "scripted", "script": str(self.place / "script.txt")}
        return Settings.model_validate({"mind": mind, "agent": AGENT, **self.settings})

    @property
    def agentuid(self) -> str:
        return self.home.agentuid(AGENT)

    def child(self, how: str) -> list[str]:
        """The command line of the stand-in; the words say how its jobs end."""
        told = self.place / "told"
        told.write_text(how)
        return [sys.executable, str(STAND_IN), str(told)]

    @property
    def jobs(self) -> list[str]:
        """The jobs that the stand-in was given."""
        file = self.place / "told.jobs"
        return file.read_text().splitlines() if file.exists() else []

    def apply(self, *events: Event) -> None:
        """Let the store take events in."""
        numbered = [(self.position + at, event) for at, event in enumerate(events, 1)]
        self.position += len(events)
        self.store.apply(numbered, upto=self.position, now=NOON + timedelta(days=1))

    async def act(
        self, raw: str | None = None, *, state: str | None = None, adapter: str | None = None, value: float = 0.5,
        blocked: bool = False,
    ) -> int:  # fmt: skip
        """One more cycle: its decision is kept with the workspace, its experience is in the store."""
        cycle, self.cycles = self.cycles, self.cycles + 1
        text = raw if raw is not None else f'TOOL: filesystem(operation="read", path="notes/{cycle}.md")'
        words = " ".join(hashlib.sha256(f"{cycle}/{at}".encode()).hexdigest()[:6] for at in range(20))
        message = PromptMessage(role="user", content=f"Cycle {cycle}: {words}")
        situation = Situation(AGENT, cycle, {"curiosity": 0.5}, {"curiosity": 1.0}, "curiosity")
        prompt = Prompt("decide", SYSTEM, (message,), situation, registry=REGISTRY)
        folder = self.home.agent_dir(AGENT) / SNAPSHOTS
        await SnapshotKeeper(folder, self.place / "workspace", self.config.forks).keep(prompt, (), None)
        action = parse(text, REGISTRY)
        status = "blocked" if blocked else "success" if action.valid else "none"
        taken = make_action_taken(
            cycle, action=action, raw=text, raw_length=len(text), policy="p1", time=NOON + timedelta(seconds=cycle),
            outcome=Outcome(status=status, output=Cut(text="", length=0, sha256="0" * 64)),
            decoding=Decoding(
                engine="stub", model="m", adapter=adapter, prompt_sha256=prompt_digest(prompt),
                state_key=state if state is not None else f"s{cycle}",
            ),
        )  # fmt: skip
        decided = ActionDecided(
            id=cycle_event_id(str(taken.action_id), ActionDecided), source=taken.source, agent=AGENT, cycle=cycle,
            action_id=taken.action_id, time=taken.time, messages=(message,), raw=text, raw_length=len(text),
            raw_sha256=taken.raw_sha256, action=action, model="m", finish_reason="stop", ms=1.0,
        )  # fmt: skip
        self.apply(decided, taken, _reward(taken, value))
        return cycle

    def log(self) -> LineageLog:
        """The lineage, read anew from the stream."""
        return LineageLog(self.bus, AGENT, self.agentuid)

    async def events(self) -> list[Event]:
        """Everything on the stream."""
        return [decode(one.data) async for one in self.bus.read(["conch.v1.>"])]

    async def restored(self) -> LineageLog:
        """The log as another process has it: from the stream alone."""
        log = self.log()
        for event in await self.events():
            log.hear(event)
        return log

    def plan(self, log: LineageLog) -> RoundPlan:
        """The plan of the next round."""
        with store_location(None, self.home.path).reader() as reader:
            return prepare_round(reader, self.config, self.home, AGENT, log.state, "person")

    def trainer(self, log: LineageLog, how: str = "good") -> LineageTrainer:
        """A trainer whose child ends so."""
        return LineageTrainer(log, self.config, self.home, self.engine, self.child(how))

    @asynccontextmanager
    async def engine(self, settings: Settings, home: Home) -> AsyncIterator[StubEngine]:
        """The engine that acts."""
        script = self.place / "script.txt"
        script.write_text("DO_NOTHING: never\n")
        yield StubEngine(ForkMinds(settings, lambda _: AdaptedMind(ScriptedMind(script), self.replies)), self.refuses)


def _reward(taken: ActionTaken, value: float) -> RewardAssigned:
    scores = tuple(
        Score(component=name, value=min(value, high), range=(low, high), status="scored", scorer="reward", version="2")
        for name, (_, low, high) in WEIGHTS.items()
    )
    return RewardAssigned(
        id=consequence_id(taken.id, "reward", "2", RewardAssigned), source=taken.source, agent=AGENT,
        cycle=taken.cycle, action_id=taken.action_id, scorer="reward", version="2", scores=scores,
    )  # fmt: skip


@pytest.fixture
async def trained(tmp_path: Path) -> AsyncIterator[Trained]:
    """A lineage without a round yet, and without cycles."""
    home = Home.at(tmp_path / "home")
    home.make()
    (tmp_path / "workspace" / "notes").mkdir(parents=True)
    (tmp_path / "workspace" / "notes" / "a.md").write_text("first\n")
    (tmp_path / "base").mkdir()
    (home.agent_dir(AGENT)).mkdir(parents=True)
    taken = make_action_taken(0)
    (home.agent_dir(AGENT) / "agentuid").write_text(taken.agentuid)
    settings = {
        "training": {
            "base": str(tmp_path / "base"), "review": "none", "method": "sft", "cooldown": 0, "load": 1000,
            "gate": {"states": 16}, "trial": {"shadow": 0, "block": 1},
        }
    }  # fmt: skip
    async with MemoryBus(MemoryJournal()) as bus:
        with store_location(None, home.path).writer() as store:
            made = Trained(home, store, bus, tmp_path, settings)
            stands: dict[str, Any] = {"source": taken.source, "agent": AGENT, "time": NOON}
            parts = tuple(
                Part(component=name, weight=weight, range=(low, high), scorer="reward")
                for name, (weight, low, high) in WEIGHTS.items()
            )
            made.apply(
                WeightsSet(id="w", version="w1", parts=parts, **stands),
                PolicySet(id="p", mind="scripted", model="m", system_prompt=SYSTEM, policy="p1", **stands),
            )
            yield made

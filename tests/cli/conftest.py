"""A home as a run leaves it: experiences made by hand, some hostile; and a run in progress, as others see it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.cli.common import CommonOptions, embedded_server
from conch.cli.reward import history
from conch.config import Settings
from conch.consumer import follow
from conch.consumer.follow import envelope_after
from conch.experience import SqliteStore
from conch.home import Home, write_whole
from conch.witness import ChainState, seal
from conch.witness.words import score_sets
from conch_schemas import (
    Action,
    ActionTaken,
    Cut,
    Drives,
    Event,
    GoalCheck,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    Outcome,
    Part,
    RewardAssigned,
    Score,
    ThoughtFormed,
    WeightsSet,
    action_id,
    consequence_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
)
from tests.witnessed import recorded

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
RECORDED = NOON + timedelta(hours=6)
"""When `keep` records."""
HOSTILE = "\x1b[2J[/nope] [bold]hi[/]\nsum                      +9.0000\u2028total"
PARTS = (
    Part(component="format", weight=0.30, range=(-1, 0.5), scorer="reward"),
    Part(component="execution", weight=0.25, range=(-0.3, 1), scorer="reward"),
    Part(component="needs", weight=0.20, range=(-1, 1), scorer="needs"),
    Part(component="goal", weight=0.15, range=(0, 2), scorer="reward"),
    Part(component="exploration", weight=0.10, range=(0, 1), scorer="curiosity", cap=0.5),
)


def cut(text: str) -> Cut:
    return Cut(text=text, length=len(text), sha256=hashlib.sha256(text.encode()).hexdigest())


@dataclass
class Life:
    """Makes the facts of an agent of this home."""

    home: Home
    agent: str = "echo"

    def __post_init__(self) -> None:
        self.uid = self.home.agentuid(self.agent)
        self.chain = ChainState()
        self.placed = 1
        """Facts that `keep` puts before the next cycle: the weight set, and those of the cycles."""
        self.scored: dict[int, list[Event]] = {}
        """By cycle: the scores that `cycle` made."""

    def envelope(self, kind: type[Event], cycle: int) -> dict[str, Any]:
        action = action_id(self.uid, cycle)
        return {
            "id": cycle_event_id(action, kind),
            "source": source_of(self.agent, self.uid),
            "subject": action,
            "agent": self.agent,
            "cycle": cycle,
            "action_id": action,
            "time": NOON + timedelta(seconds=cycle),
            "policy": "p1",
        }

    def weights(self) -> WeightsSet:
        identity = consequence_id(self.uid, "run", "w1", WeightsSet)
        source = source_of(self.agent, self.uid)
        return WeightsSet(id=identity, source=source, agent=self.agent, time=NOON, version="w1", parts=PARTS)

    def act(self, cycle: int, text: str = "a file", **changes: Any) -> ActionTaken:
        args = {"operation": "read", "path": text}
        fields: dict[str, Any] = {
            "action": Action(kind="TOOL", valid=True, tool="filesystem", args=args),
            "raw": f"TOOL: filesystem {text}",
            "raw_length": 8,
            "raw_sha256": "0" * 64,
            "outcome": Outcome(status="success", output=cut(text), ms=4.0),
            "goals": (GoalCheck(goal="g", statement=text, outcome="neutral", measure=0.5, best=0.5, detail=text),),
            "needs": {"curiosity": 0.5, "excellence": 0.25},
            "thought": text,
            "model": "m",
            "ms": {"think": 1.0, "ground": 2.0, "decide": 3.0, "act": 4.0},
        }
        return ActionTaken(**(self.envelope(ActionTaken, cycle) | fields | changes))

    def scores(self, act: ActionTaken, text: str = "why") -> list[Event]:
        def score(component: str, value: float | None, scorer: str = "reward") -> Score:
            status = "scored" if value is not None else "not_applicable"
            return Score(
                component=component, value=value, range=(-1, 2), status=status, explanation=text, scorer=scorer,
                version="1",
            )  # fmt: skip

        reward = follow(
            act, RewardAssigned, consumer="reward", version="1", scorer="reward",
            scores=(score("format", 0.5), score("execution", 0.2), score("goal", None)),
        )  # fmt: skip
        needs = follow(
            act, NeedsChanged, consumer="needs", version="1", before={"curiosity": 0.5, "excellence": 0.25},
            after={"curiosity": 0.65, "excellence": 0.25}, changes=({"need": "curiosity", "delta": 0.15, "why": text},),
            most_pressing="curiosity", score=score("needs", 0.125, "needs"),
        )  # fmt: skip
        drives = Drives(curiosity=0, competence=0, autonomy=0, social=0, intrinsic=0)
        novelty = follow(
            act, NoveltyMeasured, consumer="curiosity", version="1", fingerprint="f", skill="s", novelty=1.0,
            new_information=False, learning_progress=0, success_rate=0, exploration_bonus=0, drives=drives, entropy=0,
            score=score("exploration", 1.0, "curiosity"),
        )  # fmt: skip
        return [reward, needs, novelty]

    def mark(self, fact: Any) -> MarkWitnessed:
        """The next mark of the chain."""
        self.chain, mark = seal(self.chain, fact)
        assert mark is not None
        return MarkWitnessed(**envelope_after(fact, mark.id), mark=mark)

    def judged(self, act: ActionTaken, scores: Sequence[Any], seq: int | None = None) -> MarkWitnessed:
        """The mark of all scores of an act at this place; None: the second fact of the next cycle to be kept."""
        for fact in scores:
            self.chain, _ = seal(self.chain, fact)
        told = [score for fact in scores for score in score_sets(fact)]
        return self.mark(recorded(act, told, PARTS, seq=seq or self.placed + 2, time=RECORDED))

    def cycle(self, cycle: int, text: str = "a file") -> list[Event]:
        act = self.act(cycle, text)
        thought = ThoughtFormed(
            **self.envelope(ThoughtFormed, cycle), thought=cut(text), need="curiosity", pressing={}, model="m", ms=1.0
        )
        self.scored[cycle] = scores = self.scores(act, text)
        facts = [thought, act, *scores, self.mark(act), self.judged(act, scores)]
        self.placed += len(facts)
        return facts


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The person's own settings are no part of a test, nor is a key that runs of other tests made; a table is as wide
    as it needs."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in [name for name in os.environ if name.startswith("CONCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that was made, without experiences."""
    made = Home(tmp_path / "home")
    made.make()
    return made


@pytest.fixture
def life(home: Home) -> Life:
    return Life(home)


@pytest.fixture
def common(home: Home) -> CommonOptions:
    """The options that name the home."""
    return CommonOptions(home=home.path)


def keep(home: Home, facts: Sequence[Event]) -> None:
    """Put facts into the home's store, behind what is there."""
    with SqliteStore(home.path / "store.db") as store:
        first = store.position() + 1
        placed = list(enumerate(facts, start=first))
        made = store.apply(placed, upto=first + len(facts) - 1, now=RECORDED)
        store.mark_published([one.id for one in made])


class Kept(Protocol):
    """Stores facts."""

    def __call__(self, *facts: Event) -> None:
        """Put facts into the home's store, behind what is there."""


class Conch(Protocol):
    """Runs a command."""

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `conch` with these arguments on the home of the test, to its end, at most 60 s."""


class Publish(Protocol):
    """Publishes facts."""

    async def __call__(self, bus: Bus, *facts: Event) -> None:
        """Publish them in this order; return when the last one is stored."""


@pytest.fixture
def kept(home: Home) -> Kept:
    """`kept(*facts)` puts facts into the home's store."""
    return lambda *facts: keep(home, facts)


@pytest.fixture
def filled(home: Home, life: Life) -> Life:
    """Three cycles in the store, 0 to 2; the last one is full of hostile text."""
    keep(home, [life.weights(), *life.cycle(0), *life.cycle(1), *life.cycle(2, HOSTILE)])
    return life


@pytest.fixture
def conch(home: Home) -> Conch:
    """`conch("cycle", "list")`: the command in a process of its own, on this home."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "conch.cli.main", *arguments, "--home", str(home.path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    return run


@asynccontextmanager
async def run_of(home: Home) -> AsyncIterator[Bus]:
    """A run in progress as other processes see it: the home is owned, a server is up, run.json says where."""
    with home.owned():
        server = embedded_server(home, Settings())
        await server.start()
        state = {
            "pid": os.getpid(),
            "agents": ["echo"],
            "started": "2026-11-20T12:00:00+00:00",
            "bus": {"url": server.url, "token": server.token, "embedded": True},
            "metrics": "http://127.0.0.1:9464/metrics",
            "processes": [
                {"name": "nats-server", "pid": 1, "state": "up", "restarts": 0, "why": ""},
                {"name": "consumers", "pid": 2, "state": "down", "restarts": 5, "why": HOSTILE},
            ],
            "store": str(home.path / "store.db"),
            "workspace": str(home.workspace),
            "consumers": ["reward", "store"],
            "rules": [],
            "set_aside": [{"origin": "bad.py", "why": HOSTILE}],
        }
        write_whole(home.run_file, json.dumps(state))
        try:
            async with JetStreamBus(Access(server.url, token=server.token)) as bus:
                yield bus
        finally:
            home.run_file.unlink()
            await server.stop()


class InProgress(Protocol):
    """`async with in_progress() as bus`: a run in progress on the home of the test."""

    def __call__(self) -> AbstractAsyncContextManager[Bus]:
        """Its bus."""


@pytest.fixture
def in_progress(home: Home, monkeypatch: pytest.MonkeyPatch) -> InProgress:
    """`async with in_progress() as bus`: a run in progress on this home. It has no store that would join scores: a
    command that waits for one gives up at once."""
    monkeypatch.setattr(history, "PATIENCE", 0.1)
    return lambda: run_of(home)


async def put(bus: Bus, *facts: Event) -> None:
    """Publish facts."""
    for fact in facts:
        await bus.publish(subject_of(fact), encode(fact), id=fact.id)


@pytest.fixture(scope="session")
def publish() -> Publish:
    """`await publish(bus, *facts)`."""
    return put


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What was written to stdout since the last time."""
    return lambda: capsys.readouterr().out


@pytest.fixture(scope="session")
def hostile() -> str:
    """Text that clears the screen, closes a tag that was never opened, and pretends to be a line of ours."""
    return HOSTILE

"""Facts of an agent's life to store, and the stores that must all behave alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.experience import ExperienceStore, MemoryStore, PostgresStore, SqliteStore
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    Claim,
    Cut,
    CycleReflected,
    Drives,
    Event,
    ExperienceRecorded,
    Mark,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    Outcome,
    Part,
    PromptMessage,
    ReviewDecided,
    RewardAssigned,
    Score,
    ThoughtFormed,
    ThoughtGrounded,
    WeightsSet,
    action_id,
    consequence_id,
    cycle_event_id,
    source_of,
)
from tests.postgres import PostgresServer

UID = "11111111-2222-4333-8444-555555555555"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOW = NOON + timedelta(hours=6)
PARTS = (
    Part(component="format", weight=0.30, range=(-1, 0.5), scorer="reward"),
    Part(component="execution", weight=0.25, range=(-0.3, 1), scorer="reward"),
    Part(component="needs", weight=0.20, range=(-1, 1), scorer="needs"),
    Part(component="goal", weight=0.15, range=(0, 2), scorer="reward"),
    Part(component="exploration", weight=0.10, range=(0, 1), scorer="curiosity", cap=0.5),
)


class Facts:
    """Makes the facts of cycle `n` of an agent; the act of cycle n was at noon plus n seconds."""

    parts = PARTS
    noon = NOON
    now = NOW

    def at(self, cycle: int, later: float = 0.0) -> datetime:
        """`later` seconds after the act of the cycle."""
        return NOON + timedelta(seconds=cycle + later)

    def envelope(self, kind: type[Event], cycle: int, agent: str = "echo", later: float = 0.0) -> dict[str, Any]:
        action = action_id(UID, cycle)
        return {
            "id": cycle_event_id(action, kind),
            "source": source_of(agent, UID),
            "subject": action,
            "agent": agent,
            "cycle": cycle,
            "action_id": action,
            "time": self.at(cycle, later),
            "policy": "p1",
        }

    def follow(self, kind: type[Event], cycle: int, scorer: str, version: str, agent: str) -> dict[str, Any]:
        act = cycle_event_id(action_id(UID, cycle), ActionTaken)
        identity = consequence_id(act, scorer, version, kind)
        return self.envelope(kind, cycle, agent, 0.01) | {"id": identity, "causation_id": act}

    def weights(self, parts: tuple[Part, ...] = PARTS, version: str = "w1", agent: str = "echo") -> WeightsSet:
        identity = consequence_id(UID, "run", version, WeightsSet)
        return WeightsSet(
            id=identity, source=source_of(agent, UID), agent=agent, time=NOON, version=version, parts=parts
        )

    def thought(self, cycle: int, agent: str = "echo") -> ThoughtFormed:
        text = f"thought {cycle}"
        cut = Cut(text=text, length=len(text), sha256=hashlib.sha256(text.encode()).hexdigest())
        return ThoughtFormed(
            **self.envelope(ThoughtFormed, cycle, agent), thought=cut, need="curiosity", pressing={}, model="m", ms=1.0
        )

    def grounded(self, cycle: int, agent: str = "echo") -> ThoughtGrounded:
        claim = Claim(claim="there is a file", about="workspace", verdict="verified", evidence="a.txt")
        return ThoughtGrounded(
            **self.envelope(ThoughtGrounded, cycle, agent), claims=(claim,), memory=("a note",), ms=2.0
        )

    def decided(self, cycle: int, agent: str = "echo", prompt: str = "what now?") -> ActionDecided:
        return ActionDecided(
            **self.envelope(ActionDecided, cycle, agent),
            messages=(PromptMessage(role="user", content=prompt),),
            raw="DO_NOTHING: rest",
            raw_length=16,
            raw_sha256="0" * 64,
            action=Action(kind="DO_NOTHING", valid=True, text="rest"),
            model="m",
            finish_reason="stop",
            ms=3.0,
        )

    def act(self, cycle: int, agent: str = "echo", **changes: Any) -> ActionTaken:
        fields: dict[str, Any] = {
            "action": Action(kind="DO_NOTHING", valid=True, text="rest"),
            "raw": "DO_NOTHING: rest",
            "raw_length": 16,
            "raw_sha256": "0" * 64,
            "outcome": Outcome(status="none", output=Cut(text="done", length=4, sha256="0" * 64)),
            "needs": {"curiosity": 0.5},
            "thought": f"thought {cycle} in short",
            "memory": ("a note",),
            "model": "m",
            "ms": {"think": 1.0, "ground": 2.0, "decide": 3.0, "act": 4.0},
        }
        return ActionTaken(**(self.envelope(ActionTaken, cycle, agent) | fields | changes))

    def score(
        self, component: str, value: float | None = 0.5, scorer: str = "reward", version: str = "1", **changes: Any
    ) -> Score:
        status = changes.pop("status", "scored" if value is not None else "not_applicable")
        limits = changes.pop("range", (-1.0, 2.0))
        return Score(
            component=component, value=value, range=limits, status=status, scorer=scorer, version=version, **changes
        )

    def reward(
        self, cycle: int, *scores: Score, scorer: str = "reward", version: str = "1", agent: str = "echo"
    ) -> RewardAssigned:
        """By default the three built-in parts: format 0.5, execution 0.2, goal not applicable."""
        built_in = (self.score("format", 0.5), self.score("execution", 0.2), self.score("goal", None))
        envelope = self.follow(RewardAssigned, cycle, scorer, version, agent)
        return RewardAssigned(**envelope, scorer=scorer, version=version, scores=scores or built_in)

    def needs(self, cycle: int, agent: str = "echo") -> NeedsChanged:
        return NeedsChanged(
            **self.follow(NeedsChanged, cycle, "needs", "1", agent),
            before={"curiosity": 0.5},
            after={"curiosity": 0.65},
            most_pressing="curiosity",
            score=self.score("needs", 0.125, "needs"),
        )

    def novelty(self, cycle: int, agent: str = "echo") -> NoveltyMeasured:
        return NoveltyMeasured(
            **self.follow(NoveltyMeasured, cycle, "curiosity", "1", agent),
            fingerprint="f",
            skill="do_nothing",
            novelty=1.0,
            new_information=False,
            learning_progress=0.0,
            success_rate=0.0,
            exploration_bonus=0.0,
            drives=Drives(curiosity=0, competence=0, autonomy=0, social=0, intrinsic=0),
            entropy=0.0,
            score=self.score("exploration", 1.0, "curiosity"),
        )

    def mark(self, cycle: int, agent: str = "echo", sequence: int | None = None, **changes: Any) -> MarkWitnessed:
        envelope = self.follow(MarkWitnessed, cycle, "witness", "1", agent)
        fields = {
            "id": envelope["id"],
            "agent": agent,
            "action_id": envelope["action_id"],
            "origin": "echo",
            "domain": "action",
            "stimulus": "s",
            "response": "r",
            "reasoning": "why",
            "event": "e",
            "content": "c",
            "sequence": cycle - 1 if sequence is None else sequence,
            "previous": "0" * 64,
            "hash": hashlib.sha256(envelope["id"].encode()).hexdigest(),
        }
        return MarkWitnessed(**envelope, mark=Mark.model_validate(fields | changes))

    def review(self, cycle: int, reviewer: str = "ada", number: int = 1, **changes: Any) -> ReviewDecided:
        """A decision on the row of the cycle's act."""
        row = hashlib.sha256(f"row {cycle}".encode()).hexdigest()
        fields: dict[str, Any] = {"row": row, "format": "sft", "decision": "approved"} | changes
        identity = consequence_id(UID, f"{row}/{reviewer}", str(number), ReviewDecided)
        envelope = self.envelope(ReviewDecided, cycle) | {"id": identity}
        return ReviewDecided(**envelope, reviewer=reviewer, number=number, **fields)

    def reflected(self, cycle: int, agent: str = "echo") -> CycleReflected:
        return CycleReflected(
            **self.envelope(CycleReflected, cycle, agent), reflection=f"reflection {cycle}", sleep=1.0, ms=5.0
        )

    def judged(self, cycle: int, agent: str = "echo") -> list[Event]:
        """The act and the scores that complete it."""
        return [
            self.act(cycle, agent),
            self.reward(cycle, agent=agent),
            self.needs(cycle, agent),
            self.novelty(cycle, agent),
        ]

    def cycle(self, cycle: int, agent: str = "echo") -> list[Event]:
        """Every fact of a cycle, in the order of a quiet run."""
        before = [self.thought(cycle, agent), self.grounded(cycle, agent), self.decided(cycle, agent)]
        return [*before, *self.judged(cycle, agent), self.mark(cycle, agent), self.reflected(cycle, agent)]


def stream(*events: Event, first: int = 1) -> list[tuple[int, Event]]:
    """The events in the places that a stream gives them."""
    return list(enumerate(events, start=first))


def apply(store: ExperienceStore, *events: Event, now: datetime = NOW) -> Sequence[ExperienceRecorded]:
    """Put the events on the stream behind all there is, and apply them; by default hours after they were made."""
    facts = stream(*events, first=store.position() + 1)
    return store.apply(facts, upto=store.position() + len(events), now=now)


@pytest.fixture(scope="session")
def facts() -> Facts:
    return Facts()


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExperienceStore]:
    """Each implementation, empty."""
    made: ExperienceStore
    match request.param:
        case "sqlite":
            made = SqliteStore(tmp_path / "store.db")
        case "memory":
            made = MemoryStore()
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            made = PostgresStore(server.new_database())
    yield made
    made.close()


class Apply(Protocol):
    """Applies events to a store."""

    def __call__(self, store: ExperienceStore, *events: Event, now: datetime = NOW) -> Sequence[ExperienceRecorded]:
        """Append the events to the stream and apply them; return what was recorded or revised."""


class Place(Protocol):
    """Numbers events."""

    def __call__(self, *events: Event, first: int = 1) -> list[tuple[int, Event]]:
        """The events with their stream positions, from `first` on."""


@pytest.fixture(scope="session")
def shared_events() -> Apply:
    """`apply` of this file: events onto the end of the stream, into the store."""
    return apply


@pytest.fixture(scope="session")
def placed() -> Place:
    """`stream` of this file: events with their places."""
    return stream

"""Acts to be scored, the consumers that score and record them, and what is left of it: on the stream, in the store."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conch.bus import Bus, OutgoingMessage, SharedSubscription
from conch.config import RewardSettings, Settings
from conch.consumer import ConsumerRuntime, ConsumerSpec, Service, ServiceContext, bind
from conch.consumer.plugins.builtin import builtin_services
from conch.rewards import weight_set, weights_version
from conch_schemas import (
    Action,
    ActionTaken,
    Cut,
    Event,
    ExperienceRecorded,
    NeedsChanged,
    NoveltyMeasured,
    Outcome,
    RewardAssigned,
    WeightsSet,
    action_id,
    cycle_event_id,
    decode,
    encode,
    source_of,
    subject_filter,
    subject_of,
)
from conch_services.reward.consumer import reward as reward_consumer

AGENT = "echo"
UID = uuid.uuid5(uuid.NAMESPACE_URL, AGENT)
SCORERS = ("reward", "needs", "curiosity")
PARTS = 11
"""Scores of an act: five by reward, two by needs, and those of curiosity."""
OF_CURIOSITY = 4
"""exploration, intrinsic, diversity, repetition."""


def context(home: Path, deadline: float = 30.0) -> ServiceContext:
    """A home whose parts wait `deadline` seconds."""
    return ServiceContext(Settings(rewards=RewardSettings(deadline=deadline)), home)


def act(cycle: int, time: datetime | None = None, agent: str = AGENT) -> ActionTaken:
    """The act of a cycle: every third one succeeds at something, so that needs go up and down."""
    uid = uuid.uuid5(uuid.NAMESPACE_URL, agent)
    identity = action_id(uid, cycle)
    kind, status = ("TOOL", "success") if cycle % 3 == 0 else ("DO_NOTHING", "none")
    text = f"output {cycle}" if kind == "TOOL" else ""
    return ActionTaken(
        id=cycle_event_id(identity, ActionTaken),
        source=source_of(agent, uid),
        agent=agent,
        cycle=cycle,
        action_id=identity,
        subject=identity,
        time=time or datetime.now(UTC),
        action=Action(kind=kind, valid=True, text="resting", tool="shell" if kind == "TOOL" else None),
        raw="DO_NOTHING: resting",
        raw_length=19,
        raw_sha256="0" * 64,
        outcome=Outcome(status=status, output=Cut(text=text, length=len(text), sha256="0" * 64)),
        needs={"curiosity": 0.5},
        model="test",
        ms={"think": 1.0},
    )


def weights(own: ServiceContext) -> WeightsSet:
    """The weight set, that comes before the acts."""
    parts = weight_set((), own.settings.rewards)
    version = weights_version(parts)
    identity = str(uuid.uuid5(UID, f"conch.v1.weights.set/{version}"))
    return WeightsSet(id=identity, source=source_of(AGENT, UID), agent=AGENT, version=version, parts=parts)


def ready(event: Event) -> OutgoingMessage:
    """An event, for the bus."""
    return OutgoingMessage(subject_of(event), encode(event), event.id)


def made(name: str, own: ServiceContext, shared_events: SharedSubscription) -> ConsumerRuntime | Service:
    """A consumer that comes with Conch."""
    one: Any = builtin_services([name])[name](own)
    return ConsumerRuntime(shared_events, one) if isinstance(one, ConsumerSpec) else one


class Scenes:
    """Acts in their order; among them earlier ones again, and rewards ahead of their acts, under ids that the server
    does not know."""

    def __init__(self, bus: Bus, home: Path, seed: int) -> None:
        self.count = 0
        self._bus, self._draw = bus, random.Random(seed)
        self._own = context(home)
        self._reward = bind(reward_consumer, self._own).handle

    async def begin(self) -> None:
        """Say what the acts are weighed by."""
        await self._bus.publish(*ready(weights(self._own))[:2], id="weights")

    async def go_on(self, acts: int) -> None:
        """So many acts more."""
        for cycle in range(self.count, self.count + acts):
            action = act(cycle)
            if self._draw.random() < 0.2:
                await self._again(self._reward(action))
            await self._bus.publish(*ready(action)[:2], id=action.id)
            if self._draw.random() < 0.2:
                await self._again(act(self._draw.randrange(cycle + 1), action.time))
        self.count += acts

    async def _again(self, event: Any) -> None:
        await self._bus.publish(*ready(event)[:2], id=str(uuid.uuid4()))


@asynccontextmanager
async def consuming(
    shared_events: SharedSubscription, own: ServiceContext, names: Sequence[str]
) -> AsyncIterator[list[ConsumerRuntime | Service]]:
    """These consumers at work; left, they are stopped in order. Raises what any of them does, in a group."""
    stop, running = asyncio.Event(), [made(name, own, shared_events) for name in names]
    async with asyncio.TaskGroup() as group:
        for one in running:
            runs = one.run(stop) if isinstance(one, ConsumerRuntime) else one.run(shared_events, stop)
            group.create_task(runs, name=f"acts.{one}")
        yield running
        stop.set()


@dataclass(frozen=True)
class Stored:
    """What a store's file holds."""

    position: int
    acts: frozenset[str]
    scores: frozenset[tuple[str, str, str]]
    """(action id, scorer, component)."""
    rows: int
    """Of scores: as many as there are scores, or one of them is there twice."""
    complete: frozenset[str]
    """Actions whose experience is complete."""
    revisions: Counter[int]
    unsaid: int
    """Experiences that are recorded and not yet known to stand on the stream."""


def stored(home: Path) -> Stored:
    """Of this moment, also beside its writer, also after its death."""
    with closing(sqlite3.connect(home / "store.db")) as db:
        db.execute("BEGIN")  # one moment for all of it
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return Stored(0, frozenset(), frozenset(), 0, frozenset(), Counter(), 0)
        meta = dict(db.execute("SELECT name, value FROM meta"))
        verdicts = db.execute(
            "SELECT action_id, complete, revision FROM experiences JOIN actions USING (act)"
        ).fetchall()
        scores = db.execute("SELECT action_id, scorer, component FROM scores JOIN actions USING (act)").fetchall()
        return Stored(
            position=int(meta.get("position", 0)),
            acts=frozenset(row[0] for row in db.execute("SELECT action_id FROM acts")),
            scores=frozenset(scores),
            rows=len(scores),
            complete=frozenset(action for action, complete, _ in verdicts if complete),
            revisions=Counter(revision for *_, revision in verdicts),
            unsaid=db.execute("SELECT count(*) FROM outbox").fetchone()[0],
        )


@dataclass(frozen=True)
class Streamed:
    """What a stream holds, as a store would have it that has read it up to a place."""

    events: tuple[tuple[int, Event], ...]

    def upto(self, seq: int) -> tuple[frozenset[str], frozenset[tuple[str, str, str]]]:
        """(acts, scores) of the events up to this place."""
        acts, scores = set(), set()
        for place, event in self.events:
            if place > seq:
                break
            action = event.action_id or ""
            match event:
                case ActionTaken():
                    acts.add(action)
                case RewardAssigned():
                    scores |= {(action, one.scorer, one.component) for one in event.scores}
                case NoveltyMeasured():
                    scores |= {(action, one.scorer, one.component) for one in (event.score, *event.beside)}
                case NeedsChanged() if event.score is not None:
                    scores |= {(action, one.scorer, one.component) for one in (event.score, *event.beside)}
        return frozenset(acts), frozenset(scores)

    def times(self, *kinds: type[Event]) -> Counter[str]:
        """How often each id of these kinds stands there."""
        return Counter(event.id for _, event in self.events if isinstance(event, kinds))

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of a kind, in order."""
        return [event for _, event in self.events if isinstance(event, kind)]


async def streamed(bus: Bus) -> Streamed:
    """Everything on the stream that concerns acts."""
    kinds = (ActionTaken, RewardAssigned, NeedsChanged, NoveltyMeasured, ExperienceRecorded)
    filters = [subject_filter(kind) for kind in kinds]
    return Streamed(tuple([(found.seq, decode(found.data)) async for found in bus.read(filters)]))

"""A store that holds what an agent lived through before: made up, as fast as the store takes it.

Each cycle is a thought, an act, its three score sets, the experience that follows from them, and a mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from conch.experience import SqliteStore
from conch.home import Home
from conch_schemas import (
    Action,
    ActionTaken,
    Cut,
    Drives,
    Event,
    Mark,
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
    source_of,
)

FACTS = 6
"""Of a cycle."""
BATCH = 500
"""Cycles to a transaction."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PARTS = (
    Part(component="format", weight=0.55, range=(-1, 0.5), scorer="reward"),
    Part(component="needs", weight=0.35, range=(-1, 1), scorer="needs"),
    Part(component="exploration", weight=0.10, range=(0, 1), scorer="curiosity", cap=0.5),
)


def fill_store(home: Path, cycles: int, agent: str = "echo") -> None:
    """So many cycles of the home's agent, as if of another stream that is gone."""
    fill_store_of(home, {agent: cycles})


def fill_store_of(home: Path, cycles: Mapping[str, int]) -> None:
    """So many cycles of each of these agents, one agent after the other, as if of another stream that is gone."""
    with SqliteStore(home / "store.db") as store:
        store.set_epoch("made up")
        seq, said = 1, []
        for agent, count in cycles.items():
            facts = facts_of(home, count, agent)
            store.apply([(seq, next(facts))], upto=seq, now=BEGIN)
            seq += 1
            for start in range(0, count, BATCH):
                placed = list(enumerate(islice(facts, BATCH * FACTS), start=seq))
                seq += len(placed)
                now = BEGIN + timedelta(seconds=start + BATCH)
                said = [one.id for one in store.apply(placed, upto=seq - 1, now=now, published=said)]
        store.mark_published(said)


def facts_of(home: Path, cycles: int, agent: str = "echo") -> Iterator[Event]:
    """The weight set, and the facts of so many cycles."""
    agentuid = Home(home).agentuid(agent)
    yield WeightsSet(
        id=consequence_id(agentuid, "run", "w1", WeightsSet),
        source=source_of(agent, agentuid),
        agent=agent,
        time=BEGIN,
        version="w1",
        parts=PARTS,
    )
    pattern = list(_pattern(agent, agentuid))
    for cycle in range(cycles):
        yield from _cycle(pattern, agentuid, cycle)


def _pattern(agent: str, agentuid: str) -> Iterator[Event]:
    """The facts of one cycle; the others differ in number and ids alone."""
    common = {"source": source_of(agent, agentuid), "agent": agent, "cycle": 0, "id": "i", "action_id": "a"}
    words = "I want to see what the notes say of kelp, and then write a line of it down. " * 4
    text = Cut(text=words, length=len(words), sha256=hashlib.sha256(words.encode()).hexdigest())
    yield ThoughtFormed(**common, thought=text, need="curiosity", pressing={"curiosity": 0.5}, model="m", ms=1.0)
    yield ActionTaken(
        **common,
        action=Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "read", "path": "notes/kelp.md"}),
        raw='TOOL: filesystem(operation="read", path="notes/kelp.md")',
        raw_length=56,
        raw_sha256="0" * 64,
        outcome=Outcome(status="success", output=Cut(text=words * 2, length=len(words) * 2, sha256="0" * 64)),
        needs={"curiosity": 0.5},
        thought=words,
        model="m",
        ms={"think": 1.0, "ground": 1.0, "decide": 1.0, "act": 1.0},
    )
    yield RewardAssigned(**common, scorer="reward", version="1", scores=(_score("format", 0.5, "reward"),))
    yield NeedsChanged(
        **common, before={"curiosity": 0.5}, after={"curiosity": 0.6}, most_pressing="curiosity",
        score=_score("needs", 0.2, "needs"),
    )  # fmt: skip
    yield NoveltyMeasured(
        **common, fingerprint="f", skill="filesystem.read", novelty=0.1, new_information=False, learning_progress=0.0,
        success_rate=0.9, exploration_bonus=0.0, drives=Drives(**dict.fromkeys(Drives.model_fields, 0.5)), entropy=0.5,
        score=_score("exploration", 0.1, "curiosity"),
    )  # fmt: skip
    mark = Mark(
        id="i", agent=agent, action_id="a", origin="agent", domain="action", stimulus="", response=words, reasoning="",
        event="e", content="0" * 64, sequence=0, previous="0" * 64, hash="0" * 64,
    )  # fmt: skip
    yield MarkWitnessed(**common, mark=mark)


def _score(component: str, value: float, scorer: str) -> Score:
    return Score(component=component, value=value, range=(-1, 2), status="scored", scorer=scorer, version="1")


def _cycle(pattern: list[Event], agentuid: str, cycle: int) -> Iterator[Event]:
    action = action_id(agentuid, cycle)
    time = BEGIN + timedelta(seconds=cycle)
    for fact in pattern:
        identity = cycle_event_id(action, type(fact))
        changes = {"id": identity, "action_id": action, "subject": action, "cycle": cycle, "time": time}
        if isinstance(fact, MarkWitnessed):
            own = {"id": identity, "hash": f"{cycle:064x}", "sequence": cycle, "action_id": action}
            changes["mark"] = fact.mark.model_copy(update=own)
        yield fact.model_copy(update=changes)

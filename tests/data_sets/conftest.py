"""A store of hand-made experiences, out of which data sets are made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.actions import Registry, parse
from conch.consumer import follow
from conch.experience import SqliteStore
from conch.testing import make_action_taken, make_reward_assigned
from conch.tools import BUILTIN_TOOLS
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    AnswerRated,
    Cut,
    Decoding,
    Event,
    Outcome,
    Part,
    PolicySet,
    PromptMessage,
    WeightsSet,
    consequence_id,
    cycle_event_id,
    source_of,
)

UID = "11111111-2222-4333-8444-555555555555"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SYSTEM = "You are echo."
REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)


class Append(Protocol):
    """Appends facts to the stream that the store reads."""

    def __call__(self, *events: Event) -> None: ...


class Correct(Protocol):
    """Lets a person correct the answer of an act."""

    def __call__(self, act: ActionTaken, text: str) -> None: ...


class Put(Protocol):
    """Puts the act of a cycle into the store, with its prompt and its total."""

    def __call__(
        self,
        cycle: int,
        raw: str = 'TOOL: shell(command="ls")',
        total: float = 0.5,
        *,
        state: str = "s1",
        prompt: str | None = None,
        **act: Any,
    ) -> ActionTaken: ...


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store.db") as made:
        yield made


@pytest.fixture
def append(store: SqliteStore) -> Append:
    """Appends facts to the stream that the store reads."""
    position = 0

    def put(*events: Event) -> None:
        nonlocal position
        numbered = [(position + at, event) for at, event in enumerate(events, 1)]
        position += len(events)
        store.apply(numbered, upto=position, now=NOON + timedelta(days=1))

    return put


@pytest.fixture
def put(append: Append) -> Put:
    """The maker of acts; the weight set and the policy are there."""
    parts = (Part(component="joy", weight=1.0, range=(-1, 1), scorer="test"),)
    identity = consequence_id(UID, "run", "w1", WeightsSet)
    stands: dict[str, Any] = {"source": source_of("echo", UID), "agent": "echo", "time": NOON}
    append(
        WeightsSet(id=identity, version="w1", parts=parts, **stands),
        PolicySet(
            id=consequence_id(UID, "run", "p1", PolicySet),
            mind="scripted",
            model="m",
            system_prompt=SYSTEM,
            policy="p1",
            **stands,
        ),
    )

    def made(
        cycle: int,
        raw: str = 'TOOL: shell(command="ls")',
        total: float = 0.5,
        *,
        state: str = "s1",
        prompt: str | None = None,
        **act: Any,
    ) -> ActionTaken:
        said = prompt if prompt is not None else f"cycle number {cycle}: " + " ".join(_words(cycle))
        action = parse(raw, REGISTRY)
        digest = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
        fields: dict[str, Any] = {
            "action": action,
            "raw": raw,
            "raw_length": len(raw),
            "outcome": Outcome(status="success", output=Cut(text="", length=0, sha256="0" * 64)),
            "time": NOON + timedelta(seconds=cycle),
            "policy": "p1",
            "decoding": Decoding(engine="scripted", model="m", prompt_sha256=digest, state_key=state),
        }
        taken = make_action_taken(cycle, **(fields | act))
        decided = ActionDecided(
            id=cycle_event_id(str(taken.action_id), ActionDecided),
            source=taken.source,
            agent=taken.agent,
            cycle=cycle,
            action_id=taken.action_id,
            time=taken.time,
            messages=(PromptMessage(role="user", content=said),),
            raw=taken.raw,
            raw_length=taken.raw_length,
            raw_sha256=taken.raw_sha256,
            action=taken.action,
            model="m",
            finish_reason="stop",
            ms=1.0,
        )
        append(decided, taken, make_reward_assigned(taken, {"joy": total}))
        return taken

    return made


@pytest.fixture
def correct(append: Append) -> Correct:
    """A person corrects the answer of an act."""

    def made(act: ActionTaken, text: str) -> None:
        append(follow(act, AnswerRated, consumer="human", version=text, message="m1", rating="corrected", text=text))

    return made


def _words(cycle: int) -> list[str]:
    """Twenty words that no other cycle has."""
    return [hashlib.sha256(f"{cycle}/{place}".encode()).hexdigest()[:6] for place in range(20)]

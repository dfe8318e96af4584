"""Rows and decisions made from a few words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.data import Format, Row, make_row
from conch.experience import MemoryStore
from conch.home import Home
from conch_schemas import ReviewDecided, consequence_id, source_of
from tests.dashboard.life import Life

UID = "11111111-2222-4333-8444-555555555555"


def said(role: str, text: str) -> list[Any]:
    return [{"role": role, "content": text}]


def make(format: Format = "sft", number: int = 0, **changes: Any) -> Row:
    """A row of the act `number`."""
    prompt, reply = said("user", f"what now, {number}?"), said("assistant", f"filesystem.read {number}")
    by_format: dict[str, dict[str, Any]] = {
        "sft": {"prompt": prompt, "completion": reply},
        "kto": {"prompt": prompt, "completion": reply, "label": False},
        "grpo": {"prompt": prompt},
        "dpo": {"prompt": prompt, "chosen": reply, "rejected": said("assistant", "prose")},
        "reward": {"prompt": prompt, "chosen": reply, "rejected": said("assistant", "prose")},
    }
    lineage: dict[str, Any] = {
        "agent": "echo",
        "action_ids": (f"act-{number}",) if format not in ("dpo", "reward") else (f"act-{number}", f"act-{number + 1}"),
        "state_key": "s",
        "prompt_hash": "ab" * 32,
        "policy": "p1",
        "reward": 0.5,
        "skill": "filesystem.read",
        "status": "success",
    }
    if format in ("dpo", "reward"):
        lineage["tier"] = "D"
    return make_row(format, by_format[format], **(lineage | changes))


def decide(
    row: str, reviewer: str = "ada", decision: str = "approved", number: int = 1, **changes: Any
) -> ReviewDecided:
    """A decision on the row of this hash, or of the hash of this word."""
    digest = row if len(row) == 64 else hashlib.sha256(row.encode()).hexdigest()
    fields: dict[str, Any] = {
        "id": consequence_id(digest, f"review/{reviewer}", str(number), ReviewDecided),
        "source": source_of("echo", UID),
        "agent": "echo",
        "row": digest,
        "format": "sft",
        "reviewer": reviewer,
        "number": number,
        "decision": decision,
    }
    return ReviewDecided.model_validate(fields | changes)


class MakeRow(Protocol):
    """Makes a row."""

    def __call__(self, format: Format = "sft", number: int = 0, **changes: Any) -> Row:
        """`make` of this file."""


class Decide(Protocol):
    """Makes a decision."""

    def __call__(
        self, row: str, reviewer: str = "ada", decision: str = "approved", number: int = 1, **changes: Any
    ) -> ReviewDecided:
        """`decide` of this file."""


@pytest.fixture(scope="session")
def row() -> MakeRow:
    return make


@pytest.fixture(scope="session")
def decided() -> Decide:
    return decide


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Thirty cycles of `echo`, all in one state, of a stream that is gone."""
    life, made = Life(), MemoryStore()
    facts = [life.weights(), life.policy(), *(fact for _ in range(30) for fact in life.cycle())]
    made.set_epoch("of before")
    made.apply(list(enumerate(facts, 1)), upto=len(facts), now=facts[-1].time + timedelta(hours=1))
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home in which no agent has been."""
    made = Home(tmp_path / "home")
    made.make()
    return made

"""Candidates of forks."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.errors import ContractError
from conch.experience import ExperienceStore, RetentionLimits, SqliteReader, SqliteStore
from conch_schemas import Action, Cut, ForkScored, Outcome
from tests.stores import age

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def fork(facts: Facts, cycle: int, seed: int, agent: str = "echo", **changes: object) -> ForkScored:
    """A candidate of a cycle of the agent."""
    envelope = facts.follow(ForkScored, cycle, f"forks-{seed}", "1", agent)
    fields = {
        "fork": "f" * 16,
        "seed": seed,
        "mind": "reflex",
        "raw": "DO_NOTHING: rest",
        "raw_length": 16,
        "raw_sha256": hashlib.sha256(b"DO_NOTHING: rest").hexdigest(),
        "action": Action(kind="DO_NOTHING", valid=True, text="rest"),
        "model": "m",
        "finish_reason": "stop",
        "workspace": "0" * 64,
        "executed": False,
        "outcome": Outcome(status="none", output=Cut(text="", length=0, sha256="0" * 64)),
        "scores": (facts.score("format", 0.5), facts.score("execution", 0.2), facts.score("goal", None)),
        "weights": "w1",
        "total": 0.2,
        "coverage": 0.785,
        "ms": {"decide": 1.0},
    }
    return ForkScored.model_validate(envelope | fields | changes)


def test_a_fork_stands_beside_its_cycle(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """The candidates of a cycle come in their order, and its experience and all figures are what they were."""
    recorded = shared_events(store, facts.weights(), *facts.cycle(1))
    before = (store.cycles.last("echo", 9), store.charts.figures("echo"), store.cycles.pending())

    revised = shared_events(store, fork(facts, 1, 0), fork(facts, 1, 1))

    assert recorded
    assert not revised
    assert (store.cycles.last("echo", 9), store.charts.figures("echo"), store.cycles.pending()) == before
    assert [one.seed for one in store.forks.of_cycle("echo", 1)] == [0, 1]
    assert store.forks.of_cycle("echo", 2) == []


def test_a_fork_that_comes_twice_is_there_once(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Of two candidates with one id the first of the stream stays, and the second one counts as a duplicate."""
    shared_events(store, facts.weights(), *facts.cycle(1), fork(facts, 1, 0))
    before = store.duplicates

    shared_events(store, fork(facts, 1, 0, total=0.9))

    assert [one.total for one in store.forks.of_cycle("echo", 1)] == [0.2]
    assert store.duplicates == before + 1


def test_a_fork_before_its_act_makes_no_act(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A candidate whose act the store does not know is kept, and no act, agent or experience comes of it."""
    shared_events(store, fork(facts, 7, 0))

    assert [one.cycle for one in store.forks.walk()] == [7]
    assert store.agents() == ()
    assert store.cycles.pending() == 0


def test_forks_are_walked_page_after_page(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """All candidates come in the order of the stream, of one agent or of all, or the newest first."""
    shared_events(store, *(fork(facts, 1, seed, "echo" if seed % 2 else "nova") for seed in range(450)))

    assert [one.seed for one in store.forks.walk()] == list(range(450))
    assert [one.seed for one in store.forks.walk("echo")] == list(range(1, 450, 2))
    assert [one.seed for one in store.forks.newest_first()] == list(reversed(range(450)))


def test_a_fork_without_a_cycle_is_refused(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A candidate that names no cycle belongs to nothing that could be shown."""
    with pytest.raises(ContractError, match="belongs to no cycle"):
        shared_events(store, fork(facts, 1, 0).model_copy(update={"cycle": None}))


def test_forks_go_with_their_cycle(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Retention removes the candidates of the cycles that it removes, and no others."""
    shared_events(store, facts.weights())
    for cycle in range(1, 141):
        shared_events(store, *facts.judged(cycle), fork(facts, cycle, 0))

    while store.prune(RetentionLimits(seconds=1.0, bytes=None, grace=0.0), facts.now + timedelta(days=1)).acts:
        pass

    kept = [one.cycle for one in store.cycles.last("echo", 999)]
    assert kept[0] > 1
    assert [one.cycle for one in store.forks.walk()] == kept


def test_a_store_without_the_table_gets_it(tmp_path: Path, facts: Facts, shared_events: Apply) -> None:
    """A file of the schema before has no candidates for a reader, and a writer gives it the table."""
    path = tmp_path / "experience.db"
    with SqliteStore(path) as store:
        shared_events(store, facts.weights(), *facts.cycle(1))
    age(path, 5)

    with SqliteReader(path) as reader:
        assert list(reader.forks.walk()) == []
        assert list(reader.forks.newest_first()) == []
        assert reader.forks.of_cycle("echo", 1) == []
    with SqliteStore(path) as store:
        shared_events(store, fork(facts, 1, 0))
        assert len(store.forks.of_cycle("echo", 1)) == 1

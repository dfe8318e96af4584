"""The public row of a cycle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from conch.experience import MemoryStore
from conch.views.agent.cycles import cycle_row
from conch_schemas import Part

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


FIELDS = ["agent", "cycle", "action_id", "time", "thought", "raw", "action", "output", "outcome", "scores", "total"]
FIELDS += ["coverage", "complete", "revision", "needs_before", "needs_after", "policy", "ms"]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as made:
        yield made


def test_a_row_has_the_public_shape(store: MemoryStore, facts: Facts, shared_events: Apply) -> None:
    """Exactly the public fields, all of them plain JSON."""
    (experience,) = shared_events(store, facts.weights(), *facts.cycle(1))

    row = cycle_row(experience).document()

    assert json.loads(json.dumps(row)) == row
    assert list(row) == FIELDS
    assert (row["time"], row["outcome"], row["output"]) == ("2026-11-20T12:00:01Z", "none", "done")
    assert list(row["action"]) == ["kind", "valid", "reason", "tool", "args", "text"]
    fields = ["component", "value", "weight", "status", "explanation", "scorer", "version", "role"]
    assert list(row["scores"][0]) == fields
    assert row["ms"] == {"think": 1.0, "ground": 2.0, "decide": 3.0, "act": 4.0, "reflect": 5.0}


def test_a_row_has_every_phase_and_every_built_in_component(
    store: MemoryStore, facts: Facts, shared_events: Apply
) -> None:
    """What is not known yet, or left out of the weights, is there all the same, with a status."""
    only = (Part(component="format", weight=1.0, range=(-1, 0.5), scorer="reward"),)
    shared_events(store, facts.weights(only), facts.act(1))
    (experience,) = store.expire(facts.at(99))

    row = cycle_row(experience).document()

    assert [(s["component"], s["status"], s["weight"]) for s in row["scores"]] == [
        ("format", "timeout", 1.0),
        ("execution", "not_applicable", 0.0),
        ("needs", "not_applicable", 0.0),
        ("goal", "not_applicable", 0.0),
        ("exploration", "not_applicable", 0.0),
    ]
    assert row["ms"]["reflect"] == 0.0
    assert (row["needs_before"], row["needs_after"], row["complete"]) == (None, None, False)

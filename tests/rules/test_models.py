"""Models made in fewer steps are the models that pydantic makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from conch.folds.models import evolve, json_of, made_of, maker, valid
from conch.needs import NeedsState
from conch_schemas import ActionTaken, ScoredPart, encode

SAID = {
    "component": "format",
    "value": 0.5,
    "weight": 0.3,
    "status": "scored",
    "explanation": "The reply is valid.",
    "scorer": "reward",
    "version": "1",
    "role": "paid",
}


def test_every_way_makes_the_same_model() -> None:
    """However it is made, it is equal, is written the same, and every field of it counts as said."""
    plain = ScoredPart.model_validate(SAID)

    for made in (made_of(ScoredPart, **SAID), valid(ScoredPart, **SAID), maker(ScoredPart)(dict(SAID))):
        assert made == plain
        assert made.model_fields_set == plain.model_fields_set
        assert json_of(made) == made.model_dump_json().encode() == plain.model_dump_json().encode()


def test_an_event_of_its_parts_is_the_event(act: Callable[..., ActionTaken]) -> None:
    """Parts that leave out what has a default give the same bytes as the whole."""
    whole = act(1, output="news")
    parts = {name: value for name, value in whole.__dict__.items() if name not in ("specversion", "episode", "type")}

    assert encode(made_of(ActionTaken, **parts)) == encode(whole)


def test_what_is_not_valid_is_refused_where_it_is_looked_at() -> None:
    """`valid` validates."""
    with pytest.raises(ValidationError):
        valid(ScoredPart, **(SAID | {"status": "splendid"}))


def test_a_state_that_evolves_leaves_the_one_before() -> None:
    """The same as a copy with changes; the first stays as it was."""
    before = NeedsState(levels={"calm": 0.5})

    after = evolve(before, rested=True)

    assert after == before.model_copy(update={"rested": True})
    assert after.model_fields_set == {"levels", "rested"}
    assert not before.rested

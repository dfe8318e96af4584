"""Persons' decisions on rows of training data."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.experience import ExperienceStore, MemoryStore, RetentionLimits
from conch.experience.queries import prune
from conch.witness import ChainState, differences, seal

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts, Place


def test_every_decision_is_kept_in_the_order_of_the_stream(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Also the one that another replaces, also of an act that the store does not have; twice is once and counted."""
    first, other = facts.review(1), facts.review(1, "bob", decision="rejected", reason="no")
    again = facts.review(1, number=2, decision="rejected", reason="on a second look")

    shared_events(store, first, other, facts.review(2), again, first)

    assert list(store.reviews.walk()) == [first, other, facts.review(2), again]
    assert store.reviews.of_row(first.row) == [first, other, again]
    assert store.reviews.of_row("0" * 64) == []
    assert store.duplicates == 1
    assert store.cycles.pending() == 0


@given(order=st.permutations(range(6)))
def test_any_order_of_facts_gives_the_same_decisions(facts: Facts, placed: Place, order: list[int]) -> None:
    """By their places on the stream."""
    events = placed(*(facts.review(cycle, reviewer) for cycle in (1, 2, 3) for reviewer in ("ada", "bob")))
    store = MemoryStore()

    for place in order:
        store.apply([events[place]], upto=6, now=facts.now)

    assert list(store.reviews.walk()) == [event for _, event in events]
    store.close()


def test_decisions_outlive_the_acts_of_their_rows(
    store: ExperienceStore, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention leaves them, and one that comes after the act was removed is kept too."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 1)
    shared_events(store, facts.weights(), *facts.cycle(1), *facts.cycle(2), facts.review(1))
    while store.prune(RetentionLimits(seconds=1.0), facts.now + timedelta(days=1)).acts:
        pass

    shared_events(store, facts.review(1, "bob"))

    assert store.cycles.get("echo", 1) is None
    assert [one.reviewer for one in store.reviews.walk()] == ["ada", "bob"]
    assert store.retention.came_late() == 0


def test_a_decision_that_was_changed_in_the_store_is_no_longer_what_its_mark_sealed(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A rejection that was turned into an approval differs from its mark; one that was removed is gone."""
    decided = facts.review(1, decision="rejected", reason="no")
    _, mark = seal(ChainState(), decided)
    assert mark is not None
    shared_events(store, facts.weights(), *facts.cycle(1), decided)

    def found() -> list[tuple[str, bool]]:
        stored = store.chain.stored([str(mark.action_id)])[str(mark.action_id)]
        return [(one.what, one.gone) for one in differences(mark, stored) if one.kind != "mark"]

    assert found() == []
    db = store._file.db  # type: ignore[attr-defined]
    [body] = db.execute("SELECT unpacked(body) FROM reviews").fetchone()
    said = body if isinstance(body, str) else bytes(body).decode()
    db.execute("UPDATE reviews SET body = packed(?)", (said.replace("rejected", "approved"),))
    assert found() == [("the review", False)]
    db.execute("DELETE FROM reviews")
    assert found() == [("the review", True)]

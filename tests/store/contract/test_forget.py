"""What a person asked to be forgotten is gone from the store, and the record of it stays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.experience import RetentionLimits, StoreLocation, StoreSearch, remove_acts
from conch.experience.queries import prune
from conch.witness import without_words
from conch_schemas import Event, PersonForgotten

if TYPE_CHECKING:
    from tests.postgres import PostgresServer
    from tests.store.conftest import Apply, Facts

WORDS = b"Roswitha"


def held(text: bytes) -> bool:
    return WORDS in text


def record(facts: Facts, *cycles: int) -> PersonForgotten:
    """What is left of these cycles."""
    act = facts.act(cycles[0])
    marks = [facts.mark(cycle) for cycle in cycles]
    return PersonForgotten(
        id="00000000-0000-4000-8000-000000000001",
        source=act.source,
        agent=act.agent,
        request="r",
        actions=tuple(str(facts.act(cycle).action_id) for cycle in cycles),
        marks=tuple(without_words(one.mark) for one in marks),
    )


def lived(facts: Facts) -> list[Event]:
    """Three cycles with reviews; the person's name stands in the prompt of the second, and in a review of the first."""
    second = [one for one in facts.cycle(2) if one.TYPE != "action.decided"]
    told = facts.decided(2, prompt="Roswitha says hello")
    said = facts.review(1, decision="rejected", reason="Roswitha said so")
    return [facts.weights(), *facts.cycle(1), said, *second, told, facts.review(2), *facts.cycle(3)]


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """Where a store is to be made that several connections open."""
    if request.param == "sqlite":
        return StoreLocation(tmp_path / "store.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return StoreLocation(None, server.new_database())


def test_acts_that_hold_the_words_are_found_and_removed(
    location: StoreLocation, facts: Facts, shared_events: Apply
) -> None:
    """Those that hold them in a fact or in a review; the others stay, and a second removal changes nothing."""
    with location.writer() as store:
        shared_events(store, *lived(facts))
    with StoreSearch(location, held) as search:
        found = search.actions({"echo"})
    assert found == {str(facts.act(1).action_id), str(facts.act(2).action_id)}

    for _ in range(2):
        remove_acts(location, [record(facts, 1, 2)], held)

    with StoreSearch(location, held) as search:
        assert search.actions({"echo"}) == set()
        assert not any(holds for _, holds in search.marks("echo"))
    with location.reader() as reader:
        assert [one.cycle for one in reader.cycles.last("echo", 9)] == [3]
        assert list(reader.reviews.walk()) == []
        assert [one.request for one in reader.chain.forgotten("echo")] == ["r"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_record_removes_what_stands_before_it_and_nothing_behind_it(
    location: StoreLocation, facts: Facts, *, at_once: bool
) -> None:
    """A killed cycle that a run finishes behind its removal is kept, whether both come in one batch or in two."""
    before, behind = [facts.weights(), *facts.cycle(1), record(facts, 1)], [*facts.cycle(1), *facts.cycle(2)]
    placed = list(enumerate([*before, *behind], start=1))
    parts = [placed] if at_once else [placed[: len(before)], placed[len(before) :]]
    with location.writer() as store:
        for part in parts:
            store.apply(part, upto=part[-1][0], now=facts.now)

    with location.reader() as reader:
        assert [one.cycle for one in reader.cycles.last("echo", 9)] == [1, 2]
        (stored,) = reader.chain.stored([str(facts.act(1).action_id)]).values()
        assert stored.seq > len(before)


def test_a_review_is_removed_when_its_act_was_pruned_before(
    location: StoreLocation, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reviews outlive their acts: the words of one are not to."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 1)
    with location.writer() as store:
        shared_events(store, *lived(facts))
        while store.prune(RetentionLimits(seconds=1.0), facts.now + timedelta(days=1)).acts:
            pass
        assert len(list(store.reviews.walk())) == 2

    remove_acts(location, [record(facts, 2)], held)

    with location.reader() as reader:
        assert list(reader.reviews.walk()) == []


def test_a_store_that_is_built_anew_forgets_as_well(
    location: StoreLocation, facts: Facts, shared_events: Apply
) -> None:
    """The record on the stream removes what came before it, and is kept."""
    with location.writer() as store:
        shared_events(store, *lived(facts), record(facts, 1, 2))
        assert [one.cycle for one in store.cycles.last("echo", 9)] == [3]
        assert store.chain.stored([str(facts.act(2).action_id)]) == {}
        [kept] = store.chain.forgotten("echo")
        assert kept.actions == (str(facts.act(1).action_id), str(facts.act(2).action_id))

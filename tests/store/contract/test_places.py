"""Places on the stream: repetition, a new stream, what has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conch.errors import ContractError
from conch.experience import ExperienceStore
from conch.folds.order import MOST_LEAP
from conch_schemas import (
    MessageReceived,
)

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts, Place


def test_repetition_changes_nothing_and_is_counted(
    store: ExperienceStore, facts: Facts, shared_events: Apply, placed: Place
) -> None:
    """The same facts again, at the same places or at later ones, give no row, no revision, only a count."""
    events = [facts.weights(), *facts.cycle(1)]
    shared_events(store, *events)
    recorded = store.cycles.get("echo", 1)

    again = store.apply(placed(*events), upto=len(events), now=facts.noon)
    published_twice = shared_events(store, *events[1:])

    assert (again, published_twice) == ((), ())
    assert store.duplicates == 2 * len(events) - 1
    assert store.cycles.get("echo", 1) == recorded
    assert (len(list(store.chain.acts("echo"))), len(list(store.chain.marks("echo")))) == (1, 1)


def test_the_place_moves_with_the_rows(store: ExperienceStore, facts: Facts, placed: Place) -> None:
    """`upto` is stored with the facts, also where the last events are none of the store's; going back is by hand."""
    said = MessageReceived(id="m", source="conch/echo/x", agent="echo", text="hello")
    store.apply(placed(facts.act(1), said), upto=7, now=facts.noon)
    ahead = store.position()

    store.apply(placed(facts.act(1)), upto=1, now=facts.noon)
    kept = store.position()
    store.set_position(3)

    assert (ahead, kept, store.position()) == (7, 7, 3)


def test_an_act_from_far_beyond_is_no_act_of_the_agent(store: ExperienceStore, facts: Facts, placed: Place) -> None:
    """Believed, a forged number would be where the agent goes on; the next act is stored as ever."""
    forged = facts.act(3 + MOST_LEAP)

    with pytest.raises(ContractError, match="right behind cycle 2") as refused:
        store.apply(placed(facts.act(1), facts.act(2), forged), upto=3, now=facts.noon)
    store.apply([(1, facts.act(1)), (2, facts.act(2)), (4, facts.act(3))], upto=4, now=facts.noon)
    with pytest.raises(ContractError, match="right behind cycle 3"):
        store.apply([(5, facts.act(4 + MOST_LEAP))], upto=5, now=facts.noon)

    assert refused.value.seq == 3
    assert store.cycles.last_cycle("echo") == 3


@pytest.mark.parametrize("change", [{"action_id": None}, {"cycle": None}, {"cycle": 2**63}])
def test_a_fact_without_a_place_stops_its_batch(
    store: ExperienceStore, facts: Facts, placed: Place, change: dict[str, Any]
) -> None:
    """A fact that no row can hold is named by its place, and nothing of its batch is stored."""
    events = placed(facts.weights(), facts.act(1), facts.act(2).model_copy(update=change))

    with pytest.raises(ContractError) as refused:
        store.apply(events, upto=3, now=facts.noon)

    assert refused.value.seq == 3
    assert (store.position(), store.agents()) == (0, ())


def test_another_stream_starts_behind_all_there_is(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A new stream's sequence numbers start again; its facts still come after the old ones, in order and in force."""
    store.set_epoch("first")
    shared_events(store, facts.weights(), *facts.judged(1))
    store.set_epoch("first")
    old = store.position()

    store.set_epoch("second")
    new = store.position()
    shared_events(store, facts.weights(facts.parts, "w2"), *facts.judged(2))

    one, two = store.cycles.last("echo", 2)
    assert (old, new, store.epoch()) == (5, 0, "second")
    assert (one.weights, two.weights) == ("w1", "w2")
    assert one.seq < two.seq
    assert one.revision == 1


def test_a_rewound_store_still_places_a_new_stream_behind(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Rewinding the position forgets no place that was taken."""
    shared_events(store, facts.weights(), *facts.judged(1))
    store.set_epoch("first")
    store.set_position(0)

    store.set_epoch("second")
    shared_events(store, facts.weights(facts.parts, "w2"), *facts.judged(2))

    assert [experience.weights for experience in store.cycles.last("echo", 2)] == ["w1", "w2"]

"""What is to be published: each revision once, and always an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conch.experience import ExperienceStore
from conch_schemas import MAX_EVENT_BYTES, Action, Cut, Outcome, encode
from tests.store.contract.conftest import TOTAL

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_what_is_recorded_waits_in_the_outbox(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Each revision stays to be published, as it was, in order, until it is marked."""
    (first,) = shared_events(store, facts.weights(), *facts.judged(1))
    (second,) = shared_events(store, facts.reward(1, facts.score("joy", 1.0, "joy"), scorer="joy"))
    waiting = store.unpublished()

    store.mark_published([first.id, "nobody's"])
    store.mark_published([])

    assert waiting == (first, second)
    assert store.unpublished() == (second,)


def test_timeouts_wait_in_the_outbox_too(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """What `expire` records is to be published like the rest."""
    shared_events(store, facts.weights(), facts.act(1))

    assert store.expire(facts.at(1, 60.0)) == store.unpublished()


def test_an_experience_always_fits_an_event(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Facts that are too large together are published without the prompt and long words; the verdict stays."""
    big = "x" * (MAX_EVENT_BYTES - 4096)
    wordy = facts.reward(
        1, facts.score("format", 0.5, explanation=big), facts.score("execution", 0.2), facts.score("goal", None)
    )
    shared_events(store, facts.weights(), facts.decided(1, prompt=big), facts.act(1), facts.needs(1), facts.novelty(1))

    (experience,) = shared_events(store, wordy)

    assert len(encode(experience)) < MAX_EVENT_BYTES
    assert experience.total == pytest.approx(TOTAL)
    assert store.unpublished() == (experience,)


BIG = "x" * (MAX_EVENT_BYTES - 4096)
LARGE_ACTS: list[dict[str, Any]] = [
    {"raw": BIG},
    {"outcome": Outcome(status="success", output=Cut(text=BIG, length=1, sha256=""))},
    {"outcome": Outcome(status="error", error=BIG, output=Cut(text="", length=0, sha256=""))},
    {"action": Action(kind="INVALID", valid=False, reason=BIG)},
    {"model": BIG},
    {"policy": BIG},
    {"episode": BIG},
    {"ms": {str(number): 1.0 for number in range(40_000)}},
]


@pytest.mark.parametrize("parts", LARGE_ACTS, ids=[next(iter(parts)) for parts in LARGE_ACTS])
def test_an_act_that_fills_an_event_does_not_stop_the_store(
    store: ExperienceStore, facts: Facts, shared_events: Apply, parts: dict[str, Any]
) -> None:
    """Whatever is long in an act that somebody else has made, its experience fits an event."""
    stranger = facts.reward(1, facts.score("c" * 200_000, scorer="s" * 200_000), scorer="stranger")
    act, *scores = facts.judged(1)

    (experience,) = shared_events(store, facts.weights(), *scores, stranger, act.model_copy(update=parts))

    assert len(encode(experience)) < MAX_EVENT_BYTES
    assert experience.total == pytest.approx(TOTAL)

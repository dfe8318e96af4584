"""How long parts of an act are waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from conch.experience import ExperienceStore
from conch_schemas import Part
from tests.store.contract.conftest import TOTAL

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_what_is_missing_at_the_deadline_is_a_timeout(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Past its deadline an act is recorded as incomplete, its missing parts as timeout, and nothing is due any more."""
    shared_events(store, facts.weights(), facts.act(1), facts.reward(1))
    deadline = store.next_deadline()

    early = store.expire(facts.at(1, 29.9))
    (experience,) = store.expire(facts.at(1, 30.0))

    assert (deadline, early) == (facts.at(1, 30.0), ())
    assert not experience.complete
    assert {part.component for part in experience.scores if part.status == "timeout"} == {"needs", "exploration"}
    assert experience.coverage == pytest.approx(0.55 / 0.85)
    assert (store.next_deadline(), store.cycles.pending("echo"), store.expire(facts.at(99))) == (None, 0, ())


def test_a_producers_clock_ahead_delays_nothing(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """An act dated in the future is waited for as if it were made now."""
    shared_events(store, facts.weights(), facts.act(1, time=facts.at(1, 86400.0)), now=facts.noon)

    assert store.next_deadline() == facts.noon + timedelta(seconds=30)


def test_each_part_has_its_own_deadline(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """An act waits for a slow judge; once that one is there, only as long as the others may take."""
    judge = Part(component="taste", weight=0.0, range=(0, 1), scorer="judge", deadline=300.0)
    shared_events(store, facts.weights((*facts.parts, judge)), facts.act(1), now=facts.at(1))
    slow = store.next_deadline()

    shared_events(store, facts.reward(1, facts.score("taste", 0.5, "judge"), scorer="judge"), now=facts.at(1))

    assert slow == facts.at(1, 300.0)
    assert store.next_deadline() == facts.at(1, 30.0)


def test_late_parts_replace_timeouts_and_raise_the_revision(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """What comes after the deadline counts: a higher revision with a new id, complete once every part is there."""
    shared_events(store, facts.weights(), facts.act(1), facts.reward(1), now=facts.at(1))
    (first,) = store.expire(facts.at(1, 31.0))

    (second,) = shared_events(store, facts.needs(1), now=facts.at(1, 40.0))
    (third,) = shared_events(store, facts.novelty(1), now=facts.at(1, 41.0))

    assert [e.revision for e in (first, second, third)] == [1, 2, 3]
    assert [e.complete for e in (first, second, third)] == [False, False, True]
    assert third.total == pytest.approx(TOTAL)
    assert len({first.id, second.id, third.id}) == 3
    assert store.cycles.get("echo", 1) == third


def test_catching_up_records_nothing_as_late_that_the_stream_holds(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Applied hours later, an act waits by the clock of the stream: its scores stand a little further down."""
    act, *scores = facts.judged(1)
    hours_later = facts.at(1, 7200.0)

    waiting = shared_events(store, facts.weights(), act, now=hours_later)
    (experience,) = shared_events(store, *scores, now=hours_later)

    assert waiting == ()
    assert (experience.complete, experience.revision) == (True, 1)


def test_a_busy_stream_brings_deadlines_too(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """An act whose parts never come is recorded by the facts of later cycles, without waiting for a quiet moment."""
    shared_events(store, facts.weights(), facts.act(1), now=facts.at(1))

    (experience,) = shared_events(store, facts.act(31), now=facts.at(31))

    assert (experience.cycle, experience.complete) == (1, False)


def test_many_deadlines_come_in_portions(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """One call records at most 500; the next deadline says that there are more."""
    shared_events(store, facts.weights(), *(facts.act(n) for n in range(1, 521)), now=facts.noon)

    portions = []
    while (due := store.next_deadline()) and due <= facts.at(1000):
        portions.append(len(store.expire(facts.at(1000))))

    assert portions == [500, 20]

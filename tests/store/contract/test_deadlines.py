"""How long parts of an act are waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import conch.experience.assemble as assemble
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
    judge = Part(component="taste", weight=0.1, range=(0, 1), scorer="judge", deadline=300.0)
    shared_events(store, facts.weights((*facts.parts, judge)), facts.act(1), now=facts.at(1))
    slow = store.next_deadline()

    shared_events(store, facts.reward(1, facts.score("taste", 0.5, "judge"), scorer="judge"), now=facts.at(1))

    assert slow == facts.at(1, 300.0)
    assert store.next_deadline() == facts.at(1, 30.0)


@pytest.mark.parametrize(
    "part",
    [
        Part(component="kind", weight=0.2, range=(-1, 1), scorer="human", deadline=600.0),
        Part(component="kind", weight=0.0, range=(-1, 1), scorer="human"),
        Part(component="kind", weight=0.0, range=(-1, 1), scorer="thumbs"),
        Part(component="kind", weight=0.0, range=(-1, 1), scorer="exam", role="held_out", deadline=600.0),
    ],
)
def test_no_experience_waits_for_a_person_or_for_what_is_not_paid(
    store: ExperienceStore, facts: Facts, shared_events: Apply, part: Part
) -> None:
    """The experience is recorded and complete without it; the score that comes late is a revision, with its share of
    the total."""
    shared_events(store, facts.weights((*facts.parts, part)), *facts.cycle(1)[:-1], now=facts.at(1))
    due, early = store.next_deadline(), store.cycles.get("echo", 1)
    assert early is not None

    said = facts.reward(1, facts.score("kind", 1.0, part.scorer), scorer=part.scorer)
    (late,) = shared_events(store, said, now=facts.at(1, 3600.0))

    assert (due, early.complete, early.coverage, early.revision) == (None, True, 1.0, 1)
    shown = {one.component: one for one in early.scores}["kind"]
    assert (shown.status, shown.explanation) == ("not_applicable", "It is not scored yet; no experience waits for it.")
    assert (late.complete, late.coverage, late.revision) == (True, 1.0, 2)
    assert late.total == pytest.approx(early.total + part.weight)
    assert store.chain.unfounded([str(late.action_id)]) == set()


def test_a_total_of_a_version_that_waited_for_every_part_follows_from_its_scores(
    store: ExperienceStore, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no forgery: recorded at the deadline, with the person's part as a timeout."""
    part = Part(component="kind", weight=0.2, range=(-1, 1), scorer="human")
    with monkeypatch.context() as earlier:
        earlier.setattr(assemble, "is_awaited", lambda _: True)
        shared_events(store, facts.weights((*facts.parts, part)), *facts.cycle(1)[:-1], now=facts.at(1))
        (experience,) = store.expire(facts.at(1, 30.0))

    assert not experience.complete
    assert store.chain.unfounded([str(experience.action_id)]) == set()


def test_a_part_that_bears_on_the_total_without_a_weight_is_waited_for(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A gate or a penalty that came late would take back what was paid."""
    gate = Part(component="calm", weight=0.0, range=(0, 1), scorer="calm", role="gate", threshold=0.5)
    shared_events(store, facts.weights((*facts.parts, gate)), *facts.cycle(1)[:-1], now=facts.at(1))

    assert (store.next_deadline(), store.cycles.get("echo", 1)) == (facts.at(1, 30.0), None)


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

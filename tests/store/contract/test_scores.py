"""Which scores count, and by which weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.experience import ExperienceStore
from conch_schemas import Part
from tests.store.contract.conftest import TOTAL

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts, Place


def test_the_weight_set_before_the_act_is_the_acts(store: ExperienceStore, facts: Facts, placed: Place) -> None:
    """Which weights count is decided by places in the stream, not by which was read first."""
    only_format = (Part(component="format", weight=1.0, range=(-1, 0.5), scorer="reward"),)
    by_place = [
        (1, facts.weights()),
        *placed(*facts.judged(1), first=2),
        (6, facts.weights(only_format, "w2")),
        *placed(*facts.judged(2), first=7),
    ]

    store.apply(by_place[6:], upto=10, now=facts.noon)
    store.apply(by_place[:6][::-1], upto=10, now=facts.noon)

    first, second = store.cycles.last("echo", 10)
    assert (first.weights, first.total) == ("w1", pytest.approx(TOTAL))
    assert (second.weights, second.total, second.scores[0].weight) == ("w2", 0.5, 1.0)
    assert {part.weight for part in second.scores[1:]} == {0.0}


def test_an_agents_weights_are_its_own(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A weight set of one agent says nothing of another's acts."""
    shared_events(store, facts.weights(), *facts.judged(1, agent="delta"))

    assert store.cycles.pending("delta") == 1


def test_an_act_without_weights_is_recorded_unpaid(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Where no weight set was ever set, an act waits 30 s for one and is recorded incomplete: total 0, coverage 0."""
    shared_events(store, *facts.judged(1), now=facts.at(1))
    assert store.expire(facts.at(1, 29.0)) == ()

    (experience,) = store.expire(facts.at(1, 30.0))

    assert (experience.total, experience.coverage, experience.complete, experience.weights) == (0.0, 0.0, False, "")
    assert {part.weight for part in experience.scores} == {0.0}


def test_the_latest_version_of_a_scorer_counts(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A later version of a score takes the place of the earlier, whichever comes last; an older one changes nothing."""
    shared_events(store, facts.weights(), *facts.judged(1))
    newer = facts.reward(1, facts.score("format", -1.0, version="10"), version="10")
    older = facts.reward(1, facts.score("format", 0.25, version="9"), version="9")

    (revised,) = shared_events(store, newer)
    ignored = shared_events(store, older)

    assert (revised.revision, revised.scores[0].value, revised.scores[0].version) == (2, -1.0, "10")
    assert revised.total == pytest.approx(TOTAL - 0.45)
    assert ignored == ()
    assert len(revised.scores) == 5


def test_scores_nobody_waits_for_stand_beside_with_weight_0(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A component outside the weight set, or another scorer's claim on a part, is shown and pays nothing."""
    beside = (facts.score("joy", 1.0, "joy"), facts.score("needs", 1.0, "joy"))
    act, rules, _, novelty = facts.judged(1)

    waiting = shared_events(store, facts.weights(), act, rules, novelty, facts.reward(1, *beside, scorer="joy"))
    (experience,) = shared_events(store, facts.needs(1))

    assert waiting == ()
    assert experience.total == pytest.approx(TOTAL)
    assert [(p.component, p.scorer, p.value, p.weight) for p in experience.scores[5:]] == [
        ("joy", "joy", 1.0, 0.0),
        ("needs", "joy", 1.0, 0.0),
    ]


def test_a_score_beside_that_comes_later_is_a_revision(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A backfilled score changes what is said of an act, not its total."""
    shared_events(store, facts.weights(), *facts.judged(1))

    (experience,) = shared_events(store, facts.reward(1, facts.score("joy", 1.0, "joy"), scorer="joy"))

    assert (experience.revision, experience.total) == (2, pytest.approx(TOTAL))


def test_a_value_outside_its_parts_range_is_an_error(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A scorer cannot pay more than its part's range by stating a wider one."""
    act, _, needs, novelty = facts.judged(1)
    greedy = facts.reward(
        1, facts.score("format", 1e9, range=(0.0, 1e9)), facts.score("execution", 0.2), facts.score("goal", None)
    )

    (experience,) = shared_events(store, facts.weights(), act, greedy, needs, novelty)

    assert (experience.scores[0].status, experience.scores[0].value, experience.complete) == ("error", None, True)
    assert experience.total == pytest.approx(TOTAL - 0.15)

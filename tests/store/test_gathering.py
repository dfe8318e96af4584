"""What was read shares a transaction where it completes no experience."""

from __future__ import annotations

import itertools

import pytest

from conch.bus import Delivery, ReceivedEvent
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    NeedsChanged,
    RewardAssigned,
    ThoughtFormed,
    ThoughtGrounded,
    subject_filter,
)
from conch_services.store.gathering import CROWDED, LINGER_SECONDS, GatheredFacts

numbers = itertools.count(1)


def read(*kinds: type[Event]) -> list[ReceivedEvent]:
    return [ReceivedEvent(Delivery(next(numbers), subject_filter(kind, "echo"), b"", 0.0), "echo") for kind in kinds]


def test_a_thought_and_its_check_wait_for_the_decision_and_are_joined_with_it_in_order() -> None:
    """They complete no experience; the decision makes them due together."""
    gathered = GatheredFacts()
    steps = [read(ThoughtFormed), read(ThoughtGrounded)]
    for step in steps:
        gathered.put(step)
        assert not gathered.are_due
        assert 0 < gathered.patience() <= LINGER_SECONDS
    decision = read(ActionDecided)
    gathered.put(decision)

    assert gathered.are_due
    assert gathered.taken() == [*itertools.chain(*steps), *decision]
    assert not gathered.are_due
    assert gathered.patience() == float("inf")


@pytest.mark.parametrize("kind", [ActionTaken, RewardAssigned, NeedsChanged])
def test_an_act_and_a_score_wait_for_nothing(kind: type[Event]) -> None:
    """A score may be the last one of its act."""
    gathered = GatheredFacts()
    gathered.put(read(CycleReflected, kind))
    assert gathered.patience() == 0.0


def test_a_step_waits_no_longer_than_the_linger_however_many_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time counts from the first of them."""
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    gathered = GatheredFacts()
    gathered.put(read(ThoughtFormed))
    now += LINGER_SECONDS / 2
    gathered.put(read(CycleReflected))
    assert gathered.patience() == pytest.approx(LINGER_SECONDS / 2)
    now += LINGER_SECONDS / 2 + 0.001
    assert gathered.are_due


def test_more_than_a_crowd_of_steps_waits_for_nothing() -> None:
    """Many agents act: their steps fill a transaction of their own."""
    gathered = GatheredFacts()
    gathered.put(read(*[ThoughtFormed] * CROWDED))
    assert not gathered.are_due
    gathered.put(read(ThoughtFormed))
    assert gathered.are_due

"""What takes an adapter back by itself."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.training import ActedUnder, CanaryLimits, PolicyActs, RollbackTrigger, decide_canary, rollback_trigger
from conch.training.rollback import KEPT, rise_chance

WORSE = decide_canary([-0.3, -0.1] * 50, CanaryLimits())


def folded(
    acts: int, invalid: int = 0, blocked: int = 0, policy: str = "new", begin: PolicyActs | None = None
) -> PolicyActs:
    """The fold over as many acts; the last ones are invalid, and the last ones blocked."""
    fold = begin or PolicyActs()
    for cycle in range(acts):
        left = acts - cycle
        fold = fold.with_act(policy, ActedUnder(cycle, f"{policy}{cycle}", left > invalid, left <= blocked))
    return fold


def trigger(fold: PolicyActs) -> RollbackTrigger | None:
    """What the acts alone call for."""
    return rollback_trigger(fold, active="new", incumbent="old")


OLD = folded(200, policy="old", invalid=2, blocked=2)


def test_an_adapter_that_acts_like_the_one_before_it_stays() -> None:
    """Also without any acts yet, and without an incumbent's."""
    assert trigger(folded(200, invalid=2, blocked=2, begin=OLD)) is None
    assert trigger(OLD) is None
    assert trigger(folded(200, invalid=100, blocked=100)) is None


def test_the_format_that_fell_takes_it_back() -> None:
    """By 5 points or more over the last 100 acts, not before there are as many; the sentence has both shares."""
    found = trigger(folded(100, invalid=12, begin=OLD))

    assert found is not None
    assert found.trigger == "format"
    assert found.active == pytest.approx(0.88)
    assert found.incumbent == pytest.approx(0.99)
    assert "88.0% of the last 100" in found.why
    assert trigger(folded(99, invalid=12, begin=OLD)) is None


def test_a_long_good_past_does_not_hide_a_fall() -> None:
    """The last 100 acts count for the format."""
    found = trigger(folded(900, invalid=14, begin=OLD))

    assert found is not None
    assert found.trigger == "format"


def test_a_fall_that_chance_explains_stays() -> None:
    """6 invalid replies of 100 beside 1 of 100 are 5 points, and no proof of anything."""
    assert trigger(folded(100, invalid=6, begin=folded(100, invalid=1, policy="old"))) is None


def test_more_blocked_acts_take_it_back_before_there_are_100() -> None:
    """6 of 20 beside 2 of 200; 1 of 20 may be chance."""
    found = trigger(folded(20, blocked=6, begin=OLD))

    assert found is not None
    assert found.trigger == "guard"
    assert "6 of 20" in found.why
    assert trigger(folded(20, blocked=1, begin=OLD)) is None


def test_policies_without_a_difference_are_seldom_taken_back() -> None:
    """Of 20 with 600 acts each, looked at after each tenth act, none: fixed seeds."""
    for seed in range(20):
        drawn = np.random.default_rng(seed)
        fold = PolicyActs()
        for cycle in range(900):
            act = ActedUnder(cycle, str(cycle), bool(drawn.random() < 0.95), bool(drawn.random() < 0.02))
            fold = fold.with_act("old" if cycle < 300 else "new", act)
            if cycle % 10 == 0:
                assert trigger(fold) is None, seed


def test_the_order_of_the_triggers() -> None:
    """A person first, then the probe, the test, the guard and the format: the first one that holds is named."""
    bad = folded(100, invalid=50, blocked=50, begin=OLD)

    def asked(**told: object) -> str:
        found = rollback_trigger(bad, active="new", incumbent="old", **told)  # type: ignore[arg-type]
        assert found is not None
        assert found.why
        return found.trigger

    assert asked(person="ada", probe_matches=False, trial=WORSE) == "person"
    assert asked(probe_matches=False, trial=WORSE) == "probe"
    assert asked(probe_matches=True, trial=WORSE) == "worse"
    assert asked(probe_matches=None, trial=replace(WORSE, verdict="inconclusive")) == "guard"
    assert asked() == "guard"


ACTS = [("new" if at % 3 else "old", ActedUnder(at, f"act{at}", at % 5 > 0, at % 7 == 0)) for at in range(30)]


@given(st.permutations(ACTS), st.lists(st.sampled_from(ACTS), max_size=10))
def test_neither_order_nor_repetition_matters(
    order: list[tuple[str, ActedUnder]], twice: list[tuple[str, ActedUnder]]
) -> None:
    """The fold is the same, whichever act comes first, and however often."""
    fold, straight = PolicyActs(), PolicyActs()
    for policy, act in [*order, *twice]:
        fold = fold.with_act(policy, act)
    for policy, act in ACTS:
        straight = straight.with_act(policy, act)

    assert fold == straight


def test_the_newest_acts_are_kept() -> None:
    """No more than the limit of each policy, an older one that comes late not; other policies can be dropped."""
    fold = PolicyActs()
    for cycle in range(5, KEPT + 10):
        fold = fold.with_act("new", ActedUnder(cycle, str(cycle), True, False))
    late = fold.with_act("new", ActedUnder(1, "late", True, False))

    assert late == fold
    assert (len(fold.acts["new"]), fold.acts["new"][0].cycle) == (KEPT, 10)
    assert fold.only("old") == PolicyActs()
    assert fold.only("new", "old") == fold


@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 12), st.integers(1, 12))
def test_the_chance_is_that_of_fishers_test(risen: int, of: int, base: int, base_of: int) -> None:
    """Counted one by one: of all ways to spread the events over both, those with as many or more on this side."""
    risen, base = min(risen, of), min(base, base_of)
    events = risen + base
    ways = sum(comb(of, k) * comb(base_of, events - k) for k in range(risen, min(of, events) + 1))

    assert rise_chance(risen, of, base, base_of) == pytest.approx(ways / comb(of + base_of, events))

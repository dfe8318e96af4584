"""The trial of a candidate: who acts in which cycle, and when its rewards decide."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.training import (
    CanaryAct,
    CanaryLimits,
    CanaryPlan,
    arm_of,
    decide_canary,
    log_wealth,
    paired_blocks,
)
from conch.training.gate import spent_alpha

PLAN = CanaryPlan("c" * 64, "6f3f0d1e-56a0-4a3f-9c6b-0a8f3f1f1c11", since=0)
LIMITS = CanaryLimits()
DIFFERENCES = st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=60)


def acts_of(plan: CanaryPlan, cycles: int, rise: float = 0.0) -> list[CanaryAct]:
    """An act each cycle, as the plan says; the candidate's total is higher by `rise`."""
    arms = [plan.arm(cycle) for cycle in range(cycles)]
    return [
        CanaryAct(f"act{cycle}", cycle, arm, 0.1 * (cycle % 3) + (rise if arm == "candidate" else 0.0))
        for cycle, arm in enumerate(arms)
    ]


ACTS = acts_of(PLAN, 40, 0.2)


@pytest.mark.parametrize(("share", "group", "candidates"), [(0.5, 2, 1), (0.25, 4, 1), (0.4, 3, 1), (0.75, 4, 3)])
def test_each_group_of_blocks_has_its_share_for_the_candidate(share: float, group: int, candidates: int) -> None:
    """A whole block has one arm, and each group as many blocks of the candidate as the share says."""
    plan = replace(PLAN, share=share, block=3)
    for first in range(0, 30 * 3 * group, 3 * group):
        blocks = [{plan.arm(first + 3 * place + at) for at in range(3)} for place in range(group)]
        assert all(len(block) == 1 for block in blocks)
        assert blocks.count({"candidate"}) == candidates


def test_which_one_acts_is_a_hash_and_even() -> None:
    """Every process computes the same arms; another candidate or agent has others; no place in a group is preferred."""
    arms = [arm_of("c" * 64, "echo", cycle, block=1, share=0.5) for cycle in range(4000)]

    assert arms == [arm_of("c" * 64, "echo", cycle, block=1, share=0.5) for cycle in range(4000)]
    assert arms != [arm_of("d" * 64, "echo", cycle, block=1, share=0.5) for cycle in range(4000)]
    assert arms != [arm_of("c" * 64, "other", cycle, block=1, share=0.5) for cycle in range(4000)]
    assert 900 < sum(arm == "candidate" for arm in arms[::2]) < 1100


@pytest.mark.parametrize(("block", "share"), [(0, 0.5), (5, 0.0), (5, 1.0), (5, float("nan"))])
def test_a_plan_that_gives_one_of_them_nothing_is_refused(block: int, share: float) -> None:
    """With a sentence that names both figures."""
    with pytest.raises(ValueError, match="blocks of 1 cycle or more"):
        replace(PLAN, block=block, share=share)


def test_a_pair_is_the_difference_of_the_means_of_its_blocks() -> None:
    """Of whole groups alone: the last one, whose rewards are waited for, gives none."""
    plan = replace(PLAN, block=1)
    acts = [
        CanaryAct(str(cycle), cycle, arm := plan.arm(cycle), 0.7 if arm == "candidate" else 0.4) for cycle in range(5)
    ]

    found = paired_blocks(plan, acts, through=4)

    assert found.differences == pytest.approx([0.3, 0.3])
    assert (found.strayed, found.empty) == (0, 0)


@given(st.permutations(ACTS), st.lists(st.sampled_from(ACTS), max_size=10))
def test_neither_order_nor_repetition_of_acts_matters(order: list[CanaryAct], twice: list[CanaryAct]) -> None:
    """The same pairs, to the last digit."""
    assert paired_blocks(PLAN, [*order, *twice], through=39) == paired_blocks(PLAN, ACTS, through=39)


def test_a_late_or_changed_reward_changes_its_pair_alone() -> None:
    """The highest revision counts, whichever comes first."""
    late = replace(ACTS[0], total=None)
    scored = replace(ACTS[0], total=-0.9, revision=2)

    before = paired_blocks(PLAN, [late, *ACTS[1:]], through=39).differences
    first = paired_blocks(PLAN, [late, *ACTS], through=39).differences
    after = paired_blocks(PLAN, [scored, late, *ACTS[1:], ACTS[0]], through=39).differences

    assert before[0] != first[0]
    assert abs(after[0] - first[0]) == pytest.approx((0.9 + (ACTS[0].total or 0.0)) / 5)
    assert before[1:] == first[1:] == after[1:]


def test_acts_of_the_wrong_one_and_groups_without_rewards_are_counted_and_left_out() -> None:
    """An adapter that could not be loaded makes the other one act: that says nothing about the candidate."""
    other = replace(ACTS[0], arm="incumbent" if ACTS[0].arm == "candidate" else "candidate", total=-1.0)
    unscored = [replace(act, total=None) for act in ACTS[10:20]]

    found = paired_blocks(PLAN, [other, *ACTS[1:10], *unscored, *ACTS[20:]], through=39)

    assert (found.strayed, found.empty) == (1, 1)
    assert len(found.differences) == 3


def test_a_group_that_began_before_the_trial_gives_no_pair() -> None:
    """Its first block was not shared by the plan."""
    assert len(paired_blocks(replace(PLAN, since=1), ACTS, through=39).differences) == 3


@given(DIFFERENCES, st.floats(-1.0, 1.0), st.randoms())
def test_the_test_does_not_depend_on_the_order_of_the_pairs(
    differences: list[float], against: float, order: random.Random
) -> None:
    """So a pair that comes late leads to the same outcome as one in time."""
    shuffled = differences.copy()
    order.shuffle(shuffled)

    assert decide_canary(shuffled, LIMITS) == decide_canary(differences, LIMITS)
    assert log_wealth(shuffled, against)[-1] == pytest.approx(log_wealth(differences, against)[-1], abs=1e-9)


@given(DIFFERENCES, st.data())
def test_a_pair_that_is_better_never_lowers_the_interval(differences: list[float], data: st.DataObject) -> None:
    """Both ends rise or stay, so better rewards never turn *better* into something else than *better*."""
    place = data.draw(st.integers(0, len(differences) - 1))
    higher = differences.copy()
    higher[place] = data.draw(st.floats(differences[place], 2.0))

    before, after = decide_canary(differences, LIMITS), decide_canary(higher, LIMITS)

    assert after.low >= before.low - 1e-9
    assert after.high >= before.high - 1e-9


def test_without_a_pair_nothing_is_known() -> None:
    """The interval is all that is possible, and the trial goes on."""
    found = decide_canary([], LIMITS)

    assert (found.verdict, found.over, found.difference) == ("inconclusive", False, None)
    assert (found.low, found.high) == (-2.0, 2.0)


@pytest.mark.parametrize(
    ("differences", "verdict", "over"),
    [
        ([0.3, 0.1] * 50, "better", True),
        ([-0.3, -0.1] * 50, "worse", True),
        ([0.01, -0.01] * 150, "equivalent", True),
        ([0.4, -0.4] * 10, "inconclusive", False),
        ([0.4, -0.4] * 150, "inconclusive", True),
    ],
)
def test_a_trial_has_one_of_four_outcomes(differences: list[float], verdict: str, over: bool) -> None:
    """It is over with an outcome, or after the most pairs; the sentence has the figures."""
    found = decide_canary(differences, LIMITS)

    assert (found.verdict, found.over) == (verdict, over)
    assert f"{len(differences)} pairs" in found.why


def test_pairs_beyond_the_most_change_nothing() -> None:
    """A trial that is over stays as it ended."""
    assert decide_canary([0.4, -0.4] * 150 + [1.0] * 100, LIMITS).verdict == "inconclusive"


def test_a_later_trial_of_a_lineage_asks_for_more() -> None:
    """`promote_alpha` makes *better* harder and leaves *worse* as it is."""
    differences = [0.3, 0.1] * 26

    first = decide_canary(differences, LIMITS)
    tenth = decide_canary(differences, LIMITS, promote_alpha=spent_alpha(0.05, 10))

    assert (first.verdict, tenth.verdict) == ("better", "inconclusive")
    assert tenth.high == first.high


def found_after(sign: int, difference: float, sd: float, alpha: float) -> float:
    """Median number of pairs until the test is sure, of 60 trials with fixed seeds."""
    rounds = [np.random.default_rng(seed).normal(difference, sd, 300) for seed in range(60)]
    wealth = [log_wealth(sign * one, 0.0) for one in rounds]
    return median(
        [
            float(np.argmax(one >= math.log(1 / alpha))) + 1 if one.max() >= math.log(1 / alpha) else math.inf
            for one in wealth
        ]
    )


def test_a_fall_is_found_within_100_pairs_and_a_rise_within_150() -> None:
    """0.3 at sd 0.5, and 0.2 at sd 0.4 with what the first trial of a lineage may spend: medians."""
    assert found_after(-1, -0.3, 0.5, 0.05) <= 50
    assert found_after(1, 0.2, 0.4, spent_alpha(0.05, 1)) <= 80


Kind = Callable[[np.random.Generator], "np.ndarray[tuple[int], np.dtype[np.float64]]"]
KINDS: dict[str, Kind] = {
    "normal": lambda made: made.normal(0.0, 0.4, 300),
    "rare losses": lambda made: np.where(made.random(300) < 0.1, -0.9, 0.1),
    "rare gains": lambda made: np.where(made.random(300) < 0.1, 0.9, -0.1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_difference_looking_after_each_pair_promotes_at_most_1_in_20(kind: str) -> None:
    """Of 200 trials with fixed seeds, over their whole length, whatever the distribution."""
    wealth = [log_wealth(KINDS[kind](np.random.default_rng(seed)), 0.0).max() for seed in range(200)]

    assert sum(highest >= math.log(1 / 0.05) for highest in wealth) <= 10


def test_what_drifts_meets_both_alike() -> None:
    """Totals that rise by 1 in the trial, whichever acts, are no difference: pairs are of neighbours."""
    for seed in range(10):
        plan = replace(PLAN, candidate=f"{seed:064x}")
        acts = [CanaryAct(str(at), at, plan.arm(at), -0.5 + at / 2000) for at in range(2000)]

        pairs = paired_blocks(plan, acts, through=1999).differences

        assert len(pairs) == 200
        assert decide_canary(pairs, LIMITS).verdict == "equivalent"

"""Off-policy evaluation of generations of the embedded mind."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.training.gate import (
    ActChance,
    LoggedChoice,
    OffPolicyLimits,
    OffPolicyVerdict,
    compare_off_policy,
    estimate_value,
)

LIMITS = OffPolicyLimits()
PAID = (0.1, 0.4, 0.0, -0.2)
"""Mean reward of each of four acts."""
CANDIDATE, INCUMBENT = (0.04, 0.88, 0.04, 0.04), (0.88, 0.04, 0.04, 0.04)
LOGGING = (0.4, 0.3, 0.2, 0.1)


def value(policy: tuple[float, ...]) -> float:
    """What a policy earns in the mean."""
    return sum(chance * paid for chance, paid in zip(policy, PAID, strict=True))


def log_of(
    seed: int,
    acts: int,
    candidate: tuple[float, ...] = CANDIDATE,
    model: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0),
) -> list[LoggedChoice]:
    """A log of the logging policy; `model`: the rewards that a model expects of the four acts."""
    drawn = np.random.default_rng(seed)
    chosen, noise = drawn.choice(4, acts, p=LOGGING), drawn.normal(0.0, 0.2, acts)

    def of(policy: tuple[float, ...], act: int) -> ActChance:
        return ActChance(policy[act], model[act], sum(p * q for p, q in zip(policy, model, strict=True)))

    return [
        LoggedChoice(f"act{at}", PAID[act] + float(noise[at]), LOGGING[act], of(candidate, act), of(INCUMBENT, act))
        for at, act in enumerate(map(int, chosen))
    ]


def compared(choices: list[LoggedChoice], limits: OffPolicyLimits = LIMITS, number: int = 1) -> OffPolicyVerdict:
    """The verdict on a log."""
    return compare_off_policy(choices, limits, number=number)


def test_all_estimates_of_the_policy_that_acted_are_the_mean_reward() -> None:
    """With weights of 1 every act is effective and none is clipped."""
    choices = [replace(one, candidate=ActChance(one.propensity)) for one in log_of(0, 200)]

    found = estimate_value([(one, one.candidate) for one in choices], LIMITS.clip)

    mean = fmean(one.reward for one in choices)
    assert (found.ips, found.snips, found.doubly_robust) == pytest.approx((mean, mean, mean))
    assert found.effective == pytest.approx(200)
    assert found.clipped == 0.0


def test_the_estimates_are_right_in_the_mean() -> None:
    """Of 40 logs with fixed seeds, for the candidate's value, by all three estimators."""
    found = [estimate_value([(one, one.candidate) for one in log_of(seed, 500)], LIMITS.clip) for seed in range(40)]

    for each in ("ips", "snips", "doubly_robust"):
        assert fmean(getattr(one, each) for one in found) == pytest.approx(value(CANDIDATE), abs=0.02)


def test_a_right_model_mends_wrong_propensities() -> None:
    """Doubly robust: IPS errs by a half, the corrected model does not."""
    wrong = [replace(one, propensity=one.propensity / 2) for one in log_of(1, 2000, model=PAID)]

    found = estimate_value([(one, one.candidate) for one in wrong], LIMITS.clip)

    assert found.doubly_robust == pytest.approx(value(CANDIDATE), abs=0.03)
    assert found.ips > 1.5 * value(CANDIDATE)


def test_a_model_narrows_the_bound() -> None:
    """Its errors vary less than the rewards."""
    plain, modelled = compared(log_of(2, 400)), compared(log_of(2, 400, model=PAID))

    assert plain.bound is not None
    assert modelled.bound is not None
    assert modelled.bound > plain.bound + 0.02


def test_a_better_generation_passes_and_an_equal_one_does_not() -> None:
    """The verdict is JSON with a sentence."""
    better = compared(log_of(3, 2000))
    equal = compared(log_of(3, 2000, candidate=INCUMBENT))

    assert (better.verdict, equal.verdict) == ("passed", "refused")
    assert better.difference == pytest.approx(value(CANDIDATE) - value(INCUMBENT), abs=0.05)
    assert equal.difference == 0.0
    assert json.loads(json.dumps(asdict(better), allow_nan=False))["why"].startswith("Passed:")


def test_a_log_that_says_too_little_is_inconclusive() -> None:
    """Few effective acts, no act at all, or a generation whose acts the log does not have."""
    never = [replace(one, candidate=ActChance(0.0)) for one in log_of(4, 500)]

    assert compared(log_of(4, 100)).verdict == "inconclusive"
    assert compared([]).verdict == "inconclusive"
    assert compared(never).verdict == "inconclusive"
    assert compared([replace(one, incumbent=ActChance(0.0)) for one in log_of(4, 500)]).verdict == "inconclusive"
    assert "0 effective acts" in compared(never).why


def test_a_rare_act_weighs_no_more_than_the_clip() -> None:
    """One act that was chosen by chance does not decide; the share of such acts is said."""
    choices = [replace(one, candidate=ActChance(0.3), propensity=0.3) for one in log_of(5, 99)]
    rare = replace(choices[0], id="rare", propensity=0.001, candidate=ActChance(1.0), reward=1.0)

    found = estimate_value([(one, one.candidate) for one in [*choices, rare]], LIMITS.clip)

    assert found.clipped == 0.01
    assert found.ips <= (sum(one.reward for one in choices) + LIMITS.clip) / 100 + 1e-9


SHORT = log_of(6, 20)


@given(st.permutations(SHORT), st.lists(st.sampled_from(SHORT), max_size=5))
def test_neither_order_nor_repetition_matters(order: list[LoggedChoice], twice: list[LoggedChoice]) -> None:
    """The same figures, to the last digit; the newest reward of an act counts."""
    changed = replace(SHORT[0], reward=0.9, revision=1)

    assert compared([*order, *twice]) == compared(SHORT)
    assert compared([changed, *order, *twice]) == compared([changed, *SHORT[1:]])


def test_without_a_difference_a_generation_seldom_passes() -> None:
    """All acts pay the same, and the two prefer one each: of 60 logs with fixed seeds at most 3 pass."""
    passed = 0
    for seed in range(60):
        rewards = np.random.default_rng(seed).normal(0.2, 0.3, 1000)
        log = [replace(one, reward=float(each)) for one, each in zip(log_of(seed, 1000), rewards, strict=True)]
        passed += compared(log).verdict == "passed"

    assert passed <= 3


@pytest.mark.parametrize("wrong", [{"propensity": 0.0}, {"propensity": 1.5}, {"reward": float("nan")}])
def test_a_propensity_of_zero_or_a_reward_that_is_no_number_is_refused(wrong: dict[str, Any]) -> None:
    """An act that could not be chosen was not chosen."""
    with pytest.raises(ValueError, match="a propensity is above 0"):
        replace(SHORT[0], **wrong)
    with pytest.raises(ValueError, match="a chance is in"):
        ActChance(1.2)

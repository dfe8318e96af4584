"""Gate, canary and rollback in simulations with fixed seeds: what they find, how fast, and how often they err.

Paired differences are normal with the standard deviation that is printed, or of real levels of a total. Each row says
which. Where there is no difference, every promotion and every rollback is an error.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from conch.training import (
    ActedUnder,
    CanaryAct,
    CanaryLimits,
    CanaryPlan,
    PolicyActs,
    decide_canary,
    log_wealth,
    paired_blocks,
    rollback_trigger,
)
from conch.training.gate import (
    ActChance,
    GateFigures,
    GateLimits,
    GateReply,
    GateSample,
    LoggedChoice,
    OffPolicyLimits,
    compare_off_policy,
    decide_gate,
    lower_bound,
    spent_alpha,
)

SD = 0.4
"""Of the paired difference of a state or a pair of blocks, where no other one is said."""
LEVELS = np.array([-0.3, 0.2, 0.2, 0.45, 0.45, 0.53])
"""Totals of a cycle: invalid, rests, successful calls, an unseen file."""
FIGURES = GateFigures(kl=0.1, probe_differs=True, servable=True)
LINEAGES, ROUNDS = 100, 50

Drawn = np.random.Generator
Differences = NDArray[np.float64]

KINDS: dict[str, Callable[[Drawn, int], Differences]] = {
    "normal, sd 0.4": lambda drawn, number: drawn.normal(0.0, SD, number),
    "rare great losses": lambda drawn, number: np.where(drawn.random(number) < 0.1, -0.9, 0.1),
    "rare great gains": lambda drawn, number: np.where(drawn.random(number) < 0.1, 0.9, -0.1),
}
"""Differences with a mean of 0."""


def measure(quick: bool) -> None:
    """Print all rows. `quick`: few simulations, no figures to quote."""
    times = 20 if quick else 1000
    began = time.process_time()
    _costs()
    _gate_power(times // 4)
    _bound_errors(times)
    _canary_speed(times)
    _canary_errors(times)
    _lineages(4 if quick else LINEAGES, 10 if quick else ROUNDS)
    _rollbacks(4 if quick else 200)
    _off_policy(times // 10)
    print(f"all of it: {time.process_time() - began:.0f} s CPU")


def held_out(drawn: Drawn, states: int, difference: float) -> list[GateSample]:
    """Samples of as many states whose totals differ by this in the mean."""
    before = drawn.uniform(-0.4, 0.4, states)
    after = before + drawn.normal(difference, SD, states)
    return [
        GateSample(f"{state:04}", 0, *(GateReply(float(total), valid=True, skill="notes.read") for total in totals))
        for state, totals in enumerate(zip(before, after, strict=True))
    ]


def crossed(differences: Differences, alpha: float) -> float:
    """The number of pairs after which their mean is said to be above 0; infinite where it never is."""
    hit = np.flatnonzero(log_wealth(differences, 0.0) >= math.log(1.0 / alpha))
    return float(hit[0]) + 1.0 if len(hit) else math.inf


def _costs() -> None:
    drawn = np.random.default_rng(0)
    samples, pairs = held_out(drawn, 400, 0.1), list(drawn.normal(0.0, SD, 300))
    for told, work in (
        ("the gate of 400 states", lambda: decide_gate(samples, GateLimits(), number=1, figures=FIGURES)),
        ("the test of 300 pairs", lambda: decide_canary(pairs, CanaryLimits())),
    ):
        taken = []
        for _ in range(5):
            began = time.process_time()
            work()
            taken.append(time.process_time() - began)
        print(f"{told}: {statistics.median(taken) * 1e3:.1f} ms CPU")


def _gate_power(times: int) -> None:
    for states in (100, 400):
        drawn, row = np.random.default_rng(states), []
        for difference in (0.0, 0.05, 0.1, 0.15, 0.2):
            passed = sum(_passes(held_out(drawn, states, difference), 1) for _ in range(times))
            row.append(f"{difference:g}: {passed / times:.1%}")
        print(
            f"gate, {states} states, sd {SD}, first of its lineage, passed with a true difference of {', '.join(row)}"
        )


def _passes(samples: list[GateSample], number: int) -> bool:
    return decide_gate(samples, GateLimits(), number=number, figures=FIGURES).verdict == "passed"


def _bound_errors(times: int) -> None:
    for told, make in KINDS.items():
        drawn, row = np.random.default_rng(4), []
        for states in (100, 400):
            over = [lower_bound(make(drawn, states), spent_alpha(0.05, 1)) for _ in range(times)]
            row.append(
                f"{states} states {sum(one > 0.0 for one in over) / times:.1%}, above the margin "
                f"{sum(one > GateLimits().margin for one in over) / times:.1%}"
            )
        print(f"the gate's bound without a difference, {told}, alpha 0.030: above 0 with {'; '.join(row)} of {times}")


def _canary_speed(times: int) -> None:
    first = spent_alpha(0.05, 1)
    for told, sign, difference, sd, alpha in (
        ("a fall of 0.3", -1.0, -0.3, 0.5, 0.05),
        ("a rise of 0.2", 1.0, 0.2, 0.4, first),
        ("a rise of 0.1", 1.0, 0.1, 0.4, first),
    ):
        drawn = np.random.default_rng(1)
        found = [crossed(sign * drawn.normal(difference, sd, 300), alpha) for _ in range(times)]
        cuts = statistics.quantiles(found, n=10)
        within = sum(map(math.isfinite, found)) / times
        print(
            f"canary, {told}, sd {sd}, alpha {alpha:.3f}: found after {statistics.median(found):.0f} pairs (median), "
            f"{cuts[0]:.0f} to {cuts[8]:.0f} in 8 of 10; within 300 pairs {within:.1%} of {times}"
        )


def _canary_errors(times: int) -> None:
    for told, make in {**KINDS, "blocks of 5 cycles, totals that drift": drifting}.items():
        drawn = np.random.default_rng(2)
        series = [make(drawn, 300) for _ in range(times)]
        better = sum(math.isfinite(crossed(one, 0.05)) for one in series) / times
        worse = sum(math.isfinite(crossed(-one, 0.05)) for one in series) / times
        print(
            f"canary without a difference, {told}, looked at after each of 300 pairs, alpha 0.05: "
            f"called better {better:.1%}, worse {worse:.1%} of {times}"
        )


def drifting(drawn: Drawn, pairs: int) -> Differences:
    """Pairs of a trial in which the totals rise by 0.6, whichever arm acts."""
    cycles = 10 * pairs
    plan = CanaryPlan(f"{drawn.integers(2**60):064x}", "echo", 0)
    totals = drawn.choice(LEVELS, cycles) + np.linspace(-0.6, 0.0, cycles)
    acts = [CanaryAct(str(cycle), cycle, plan.arm(cycle), float(total)) for cycle, total in enumerate(totals)]
    return np.array(paired_blocks(plan, acts, through=cycles - 1).differences)


def _lineages(lineages: int, rounds: int) -> None:
    gated, both, alone, unspent, marginless = 0, 0, 0, 0, 0
    for seed in range(lineages):
        drawn = np.random.default_rng(1000 + seed)
        passed = [_passes(held_out(drawn, 100, 0.0), number) for number in range(1, rounds + 1)]
        gated += any(passed)
        trials = [drawn.normal(0.0, SD, 300) for _ in range(rounds)]
        both += any(math.isfinite(crossed(trials[at], spent_alpha(0.05, at + 1))) for at in range(sum(passed)))
        alone += any(math.isfinite(crossed(one, spent_alpha(0.05, at))) for at, one in enumerate(trials, 1))
        marginless += any(
            lower_bound(drawn.normal(0.0, SD, 100), spent_alpha(0.05, number)) > 0.0 for number in range(1, rounds + 1)
        )
        unspent += any(lower_bound(drawn.normal(0.0, SD, 100), 0.05) > 0.0 for _ in range(rounds))
    print(
        f"{lineages} lineages of {rounds} rounds without a difference, promoted at least once: gate and canary {both}; "
        f"a gate alone (100 states) {gated}, without its margin {marginless}; a canary alone, alpha spent, {alone}; "
        f"a gate at 0.05 each time, without a margin, {unspent}"
    )


def _rollbacks(policies: int) -> None:
    kept = _taken_back(policies, 2000, valid=0.97, blocked=0.01)
    print(f"rollback without a difference, 2,000 acts each, looked at after each: {len(kept)} of {policies} taken back")
    for told, valid, blocked in (("valid replies 97 % → 85 %", 0.85, 0.01), ("blocked acts 1 % → 5 %", 0.97, 0.05)):
        found = _taken_back(max(4, policies // 10), 1000, valid=valid, blocked=blocked)
        acts = f"{statistics.median(found):.0f} acts (median)" if found else "no number of acts"
        print(f"rollback, {told}: {len(found)} of {max(4, policies // 10)} within 1,000 acts, after {acts}")


def _taken_back(policies: int, acts: int, *, valid: float, blocked: float) -> list[int]:
    """Acts until the rollback, of the policies that were rolled back. The incumbent: 97 % valid, 1 % blocked."""
    found = []
    for seed in range(policies):
        drawn = np.random.default_rng(seed)
        fold = PolicyActs()
        for cycle in range(500):
            fold = fold.with_act("old", _act(drawn, cycle, 0.97, 0.01))
        for cycle in range(500, 500 + acts):
            fold = fold.with_act("new", _act(drawn, cycle, valid, blocked))
            if rollback_trigger(fold, active="new", incumbent="old") is not None:
                found.append(cycle - 499)
                break
    return found


def _act(drawn: Drawn, cycle: int, valid: float, blocked: float) -> ActedUnder:
    return ActedUnder(cycle, str(cycle), bool(drawn.random() < valid), bool(drawn.random() < blocked))


def _off_policy(times: int) -> None:
    for difference in (0.0, 0.15):
        drawn = np.random.default_rng(3)
        verdicts = [
            compare_off_policy(logged(drawn, 1000, difference), OffPolicyLimits(), number=1) for _ in range(times)
        ]
        passed = sum(one.verdict == "passed" for one in verdicts) / times
        errors = [one.difference - difference for one in verdicts if one.difference is not None]
        effective = statistics.median(one.candidate.effective for one in verdicts if one.candidate is not None)
        print(
            f"off-policy, 1,000 acts by an even choice of 4, true difference {difference:g}: passed {passed:.1%} of "
            f"{times}, error of the estimate {statistics.fmean(errors):+.3f} ± {statistics.stdev(errors):.3f}, "
            f"{effective:.0f} effective acts"
        )


def logged(drawn: Drawn, acts: int, difference: float) -> list[LoggedChoice]:
    """A log of even choices among four acts: the candidate prefers the second, which pays more by this, and the
    incumbent the first. No model of the rewards is used."""
    chosen, rewards = drawn.integers(4, size=acts), drawn.normal(0.2, 0.3, acts)
    liked, rest = 0.94, 0.02
    return [
        LoggedChoice(
            str(at),
            float(reward) + (difference / (liked - rest) if act == 1 else 0.0),
            0.25,
            ActChance(liked if act == 1 else rest),
            ActChance(liked if act == 0 else rest),
        )
        for at, (act, reward) in enumerate(zip(chosen, rewards, strict=True))
    ]

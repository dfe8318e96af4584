"""The trial of a candidate: which of two adapters acts in a cycle, and a test of their rewards, valid at any time.

Cycles are cut into blocks, and blocks in a row into groups. In each group a hash says which block is the candidate's,
so each group gives one pair: the candidate's block mean minus the incumbent's. Changes over time meet both alike.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Arm = Literal["incumbent", "candidate"]

STAKES = np.array([0.1, 0.3, 0.6, 0.95])
"""Shares of the capital that are bet on each pair. Of five sets that were simulated this one needed the fewest pairs
for a rise of 0.2 with a standard deviation of 0.4, and for a fall of 0.3 with one of 0.5."""
HALVINGS = 50
"""Of the interval of an end of the interval: 1e-15 of the range."""


@dataclass(frozen=True)
class CanaryPlan:
    """How the cycles of a trial are shared. Raises ValueError for a block below 1 or a share outside 0..1, both ends
    excluded."""

    candidate: str
    """Digest of the candidate."""
    agentuid: str
    since: int
    """First cycle of the trial; a group that began before it gives no pair."""
    block: int = 5
    """Cycles in a row that one of the two gets."""
    share: float = 0.5
    """Of the blocks, that the candidate acts in; see `group`."""

    def __post_init__(self) -> None:
        if self.block < 1 or not 0.0 < self.share < 1.0:
            raise ValueError(f"a trial has blocks of 1 cycle or more and a share in 0..1: {self.block}, {self.share}")

    @property
    def group(self) -> int:
        """Blocks of a group, of which the rarer arm has one. Where the share of the rarer arm is no 1/n, the next
        smaller one is used: 0.4 becomes 1/3."""
        return math.ceil(1.0 / min(self.share, 1.0 - self.share) - 1e-9)

    def arm(self, cycle: int) -> Arm:
        """Which one acts in this cycle."""
        group, place = divmod(cycle // self.block, self.group)
        text = f"{self.candidate}/{self.agentuid}/{group}"
        drawn = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % self.group
        return "candidate" if (place == drawn) == (self.share <= 0.5) else "incumbent"


@dataclass(frozen=True)
class CanaryAct:
    """An act of the trial and its reward, as far as it is known."""

    id: str
    cycle: int
    arm: Arm
    """Which one really acted, by the act's policy digest."""
    total: float | None
    """None: it was not scored yet, or cannot be."""
    revision: int = 0
    """Of the reward: the highest one counts."""


@dataclass(frozen=True)
class CanaryLimits:
    """How a trial is decided."""

    alpha: float = 0.05
    """Chance that a candidate that is not better is promoted, and that one that is not worse is called so."""
    difference: float = 0.05
    """Differences of the mean total of a cycle below this count as none."""
    pairs: int = 300
    """Most pairs: after them a trial without an outcome is over."""
    most: float = 1.0
    """Largest absolute total of a cycle. Block means beyond it are clipped, as the test needs bounded ones."""


@dataclass(frozen=True)
class CanaryPairs:
    """What a trial has shown so far."""

    differences: tuple[float, ...]
    """Candidate's mean minus incumbent's of each group, oldest first."""
    strayed: int
    """Acts that the other one did than the plan says, as an adapter could not be loaded: they are left out."""
    empty: int
    """Groups without a scored act of both: they give no pair."""


@dataclass(frozen=True)
class CanaryResult:
    """The outcome of a trial up to now."""

    verdict: Literal["better", "worse", "equivalent", "inconclusive"]
    """Only *better* promotes, *worse* ends the trial at once."""
    over: bool
    """Whether the trial ends: with an outcome, or after the most pairs."""
    pairs: int
    difference: float | None
    """Mean difference of the pairs; None without any."""
    low: float
    """With `high`: the interval of the true mean difference that is valid at any time, `low` at the alpha of
    promotions, `high` at the alpha of the limits."""
    high: float
    why: str
    """One sentence with the figures."""


def arm_of(candidate: str, agentuid: str, cycle: int, *, block: int, share: float) -> Arm:
    """Which one acts in a cycle; every process computes the same. Raises ValueError as CanaryPlan does."""
    return CanaryPlan(candidate, agentuid, 0, block, share).arm(cycle)


def paired_blocks(plan: CanaryPlan, acts: Iterable[CanaryAct], *, through: int) -> CanaryPairs:
    """The pairs of all groups that end with cycle `through` or before.

    They are computed from all acts each time, so a late or changed reward changes its pair. The order of the acts does
    not matter, and the same act twice counts once. `through` is the last cycle whose rewards are waited for no longer.
    """
    sums: dict[int, dict[Arm, tuple[float, int]]] = {}
    size, strayed = plan.block * plan.group, 0
    for act in _newest(acts):
        group = act.cycle // size
        if group * size < plan.since or (group + 1) * size - 1 > through:
            continue
        arms = sums.setdefault(group, {})
        if act.arm != plan.arm(act.cycle):
            strayed += 1
        elif act.total is not None:
            total, count = arms.get(act.arm, (0.0, 0))
            arms[act.arm] = total + act.total, count + 1
    whole = [arms for _, arms in sorted(sums.items()) if len(arms) == 2]
    return CanaryPairs(
        tuple(_mean(arms["candidate"]) - _mean(arms["incumbent"]) for arms in whole), strayed, len(sums) - len(whole)
    )


def decide_canary(
    differences: Sequence[float], limits: CanaryLimits, *, promote_alpha: float | None = None
) -> CanaryResult:
    """The outcome by the first `limits.pairs` pairs. It may be asked after each pair: that costs no error rate.

    `promote_alpha`: the error rate of *better* alone, where the lineage spends one over its trials; default that of the
    limits. A test by betting (Waudby-Smith and Ramdas 2024, JRSS-B 86:1) on means that lie in a known range: the bound
    is the least mean on which a fair bet against it would not have won 1/alpha. It holds for any distribution.
    """
    used = np.asarray(differences[: limits.pairs], dtype=np.float64)
    low = _bound(used, limits, limits.alpha if promote_alpha is None else promote_alpha)
    high = -_bound(-used, limits, limits.alpha)
    n, over = len(used), len(used) >= limits.pairs
    verdict: Literal["better", "worse", "equivalent", "inconclusive"] = "inconclusive"
    if low > 0.0:
        verdict = "better"
    elif high < 0.0:
        verdict = "worse"
    elif -limits.difference < low and high < limits.difference:
        verdict = "equivalent"
    mean = float(np.sort(used).mean()) if n else None
    told = "no pair of blocks yet" if mean is None else f"a mean difference of {mean:+.3f} over {n} pairs of blocks"
    why = f"{verdict.capitalize()}: {told}, {low:+.3f} to {high:+.3f} at any time."
    return CanaryResult(verdict, over or verdict != "inconclusive", n, mean, low, high, why)


def log_wealth(
    differences: Sequence[float] | NDArray[np.float64], against: float, most: float = 1.0
) -> NDArray[np.float64]:
    """Logarithm of the capital after each pair, that began as 1 and was bet on a mean above `against`.

    Each stake of STAKES bets a quarter of it. Where the mean is `against` or less, the capital ever reaches 1/alpha
    with a probability of alpha at most (Ville). It does not depend on the order of the pairs, falls with `against`, and
    rises with each difference. Differences lie in -2 most .. 2 most, `against` above the lower end.
    """
    gain = (np.clip(differences, -2.0 * most, 2.0 * most) + 2.0 * most) / (against + 2.0 * most) - 1.0
    paths = np.log1p(np.outer(STAKES, gain)).cumsum(axis=1)
    highest = paths.max(axis=0)
    return np.asarray(highest + np.log(np.exp(paths - highest).mean(axis=0)))


def _bound(differences: NDArray[np.float64], limits: CanaryLimits, alpha: float) -> float:
    """The greatest mean that the pairs reject from above; the lower end of the range without any."""
    low, high = -2.0 * limits.most, 2.0 * limits.most
    ordered = np.sort(differences)
    if not len(ordered):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        rejected = log_wealth(ordered, middle, limits.most)[-1] >= math.log(1.0 / alpha)
        low, high = (middle, high) if rejected else (low, middle)
    return low


def _newest(acts: Iterable[CanaryAct]) -> list[CanaryAct]:
    """Each act once, with its newest reward, in the order of cycles and ids."""
    newest: dict[str, CanaryAct] = {}
    for act in acts:
        if act.id not in newest or _age(act) > _age(newest[act.id]):
            newest[act.id] = act
    return sorted(newest.values(), key=lambda act: (act.cycle, act.id))


def _age(act: CanaryAct) -> tuple[int, bool, float, Arm]:
    return act.revision, act.total is not None, act.total or 0.0, act.arm


def _mean(sums: tuple[float, int]) -> float:
    return sums[0] / sums[1]

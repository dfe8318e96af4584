"""Off-policy evaluation: what a policy would have earned in the acts that another one chose, from logged propensities.

It is the gate of the embedded mind: two frozen generations of its parameters are compared on the same log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from conch.training.gate.bound import lower_bound, spent_alpha


@dataclass(frozen=True)
class ActChance:
    """What a policy would have done where an act was logged. Raises ValueError for a chance outside 0..1."""

    chance: float
    """Probability with which it chooses the logged act."""
    act_value: float = 0.0
    """Reward that a model expects of the logged act; 0 without a model."""
    policy_value: float = 0.0
    """Reward that the model expects of what the policy would choose; 0 without a model."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.chance <= 1.0 or not math.isfinite(self.act_value + self.policy_value):
            raise ValueError(f"a chance is in 0..1 and values are finite: {self}")


@dataclass(frozen=True)
class LoggedChoice:
    """A logged act with its reward, and what both generations would have done. Raises ValueError for a propensity
    outside 0..1, 0 excluded, or a reward that is not finite."""

    id: str
    """Id of the act."""
    reward: float
    propensity: float
    """Probability with which the policy that acted chose it."""
    candidate: ActChance
    incumbent: ActChance
    revision: int = 0
    """Of the reward: the highest one counts."""

    def __post_init__(self) -> None:
        if not 0.0 < self.propensity <= 1.0 or not math.isfinite(self.reward):
            raise ValueError(f"a propensity is above 0 and at most 1, a reward is finite: {self}")


@dataclass(frozen=True)
class OffPolicyLimits:
    """When an estimate is good enough."""

    clip: float = 20.0
    """Largest weight of an act. A clipped weight takes a rare act less seriously than it should be: the estimate moves
    towards the model's, without a model towards 0."""
    effective: float = 100.0
    """Least effective number of acts, of both generations."""
    margin: float = 0.02
    """The lower bound of the difference must be above this."""
    alpha: float = 0.05
    """Error rate of all gates of a lineage together."""


@dataclass(frozen=True)
class ValueEstimate:
    """The mean reward that a policy would have earned, by three estimators."""

    ips: float
    """Inverse propensity: unbiased without clipping, wide."""
    snips: float
    """The same divided by the sum of the weights: it stays within the range of the rewards."""
    doubly_robust: float
    """The model's value, corrected by weighted errors of the model: right where the model or the propensities are."""
    effective: float
    """Effective number of acts: (Σ weight)² / Σ weight²."""
    clipped: float
    """Share of acts whose weight was clipped, 0..1."""


@dataclass(frozen=True)
class OffPolicyVerdict:
    """Whether a generation of the embedded mind may act; `asdict` of it is JSON."""

    verdict: Literal["passed", "refused", "inconclusive"]
    number: int
    """How many gates the lineage has had with this one."""
    alpha: float
    """What this gate spent of the lineage's error rate."""
    acts: int
    candidate: ValueEstimate | None
    """None without acts."""
    incumbent: ValueEstimate | None
    difference: float | None
    """Of the doubly robust estimates, candidate's minus incumbent's."""
    bound: float | None
    """Its lower bound at 1 - alpha."""
    why: str
    """One sentence with the figures."""


def compare_off_policy(choices: Iterable[LoggedChoice], limits: OffPolicyLimits, *, number: int) -> OffPolicyVerdict:
    """Compare two generations on a log that either, or another policy, made. `number`: of this gate, from 1 on.

    Their doubly robust terms are subtracted act by act, so what both share cancels out. The order of the acts does not
    matter, the same act twice counts once. Acts are taken as independent, so a log should span many situations.
    Raises ValueError for a number below 1.
    """
    once, alpha = _once(choices), spent_alpha(limits.alpha, number)
    if not once:
        why = "No act was logged with a propensity."
        return OffPolicyVerdict("inconclusive", number, alpha, 0, None, None, None, None, why)
    rows = [(choice, choice.candidate) for choice in once], [(choice, choice.incumbent) for choice in once]
    candidate, incumbent = (estimate_value(side, limits.clip) for side in rows)
    terms, others = (_terms(side, limits.clip) for side in rows)
    differences = [ours - theirs for ours, theirs in zip(terms, others, strict=True)]
    difference, bound = math.fsum(differences) / len(once), lower_bound(differences, alpha)
    figures = f"a difference of {difference:+.3f}, lower bound {bound:+.3f} at alpha {alpha:.2g}, over {len(once)} acts"
    verdict: Literal["passed", "refused", "inconclusive"]
    effective = min(candidate.effective, incumbent.effective)
    if effective < limits.effective:
        verdict = "inconclusive"
        why = f"The log says too little: {effective:.0f} effective acts, {limits.effective:.0f} are needed; {figures}."
    else:
        verdict = "passed" if bound > limits.margin else "refused"
        why = f"{verdict.capitalize()}: {figures}; it must be above {limits.margin:g}."
    return OffPolicyVerdict(verdict, number, alpha, len(once), candidate, incumbent, difference, bound, why)


def estimate_value(rows: Sequence[tuple[LoggedChoice, ActChance]], clip: float) -> ValueEstimate:
    """The value of one policy on logged acts, of which there is at least one."""
    weights = [_weight(choice, chance, clip) for choice, chance in rows]
    paid = [weight * choice.reward for weight, (choice, _) in zip(weights, rows, strict=True)]
    whole, squares, n = math.fsum(weights), math.fsum(weight * weight for weight in weights), len(rows)
    return ValueEstimate(
        ips=math.fsum(paid) / n,
        snips=math.fsum(paid) / whole if whole else 0.0,
        doubly_robust=math.fsum(_terms(rows, clip)) / n,
        effective=whole * whole / squares if squares else 0.0,
        clipped=sum(chance.chance / choice.propensity > clip for choice, chance in rows) / n,
    )


def _terms(rows: Sequence[tuple[LoggedChoice, ActChance]], clip: float) -> list[float]:
    """The doubly robust estimate of each act alone."""
    return [
        chance.policy_value + _weight(choice, chance, clip) * (choice.reward - chance.act_value)
        for choice, chance in rows
    ]


def _weight(choice: LoggedChoice, chance: ActChance, clip: float) -> float:
    return min(chance.chance / choice.propensity, clip)


def _once(choices: Iterable[LoggedChoice]) -> list[LoggedChoice]:
    """Each act once, with its newest reward, in the order of ids."""
    newest: dict[str, LoggedChoice] = {}
    for choice in choices:
        known = newest.get(choice.id)
        if known is None or (choice.revision, repr(choice)) > (known.revision, repr(known)):
            newest[choice.id] = choice
    return [newest[id] for id in sorted(newest)]

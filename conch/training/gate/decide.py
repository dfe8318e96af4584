"""The verdict of the gate: all conditions in one table, and what they were computed from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from conch.training.gate.bound import lower_bound, spent_alpha
from conch.training.gate.conditions import GateComparison, all_conditions
from conch.training.gate.sample import (
    CheckedCondition,
    GateFigures,
    GateLimits,
    GateSample,
    distinct_samples,
    evidence_digest,
)


@dataclass(frozen=True)
class GateVerdict:
    """Whether a candidate may be tried, with every condition and its figures; `asdict` of it is JSON."""

    verdict: Literal["passed", "refused", "inconclusive"]
    """passed: all conditions hold. refused: one does not. inconclusive: none fails, and one cannot be said."""
    conditions: tuple[CheckedCondition, ...]
    number: int
    """How many gates the lineage has had with this one."""
    alpha: float
    """What this gate spent of the lineage's error rate."""
    pairs: int
    """States that were scored on both sides."""
    difference: float | None
    """Mean over states of the candidate's total minus the incumbent's; None without any."""
    bound: float | None
    """Its lower bound at 1 - alpha."""
    evidence: str
    """SHA-256, hexadecimal, over samples, limits, number and figures."""


def decide_gate(samples: Iterable[GateSample], limits: GateLimits, *, number: int, figures: GateFigures) -> GateVerdict:
    """Compare candidate and incumbent on held-out states. `number`: of this gate in its lineage, from 1 on.

    The order of the samples does not matter, and the same sample twice counts once. States are what is independent:
    several seeds of one state are averaged first. Raises ValueError for a number below 1.
    """
    once = distinct_samples(samples)
    compared = GateComparison(once, limits, spent_alpha(limits.alpha, number))
    conditions = all_conditions(compared, figures)
    values = compared.by_state(lambda sample: sample.difference)
    return GateVerdict(
        verdict=_verdict(conditions),
        conditions=conditions,
        number=number,
        alpha=compared.alpha,
        pairs=len(values),
        difference=sum(values) / len(values) if values else None,
        bound=lower_bound(values, compared.alpha) if values else None,
        evidence=evidence_digest(once, limits, number, figures),
    )


def _verdict(conditions: tuple[CheckedCondition, ...]) -> Literal["passed", "refused", "inconclusive"]:
    if any(condition.holds is False for condition in conditions):
        return "refused"
    return "inconclusive" if any(condition.holds is None for condition in conditions) else "passed"

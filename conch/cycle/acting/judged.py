"""Two generations of a reflex mind compared on the choices that were made since the newer one was frozen. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from conch.minds import DrawnChoice, LinUCB
from conch.training.gate import ActChance, LoggedChoice, OffPolicyLimits, OffPolicyVerdict, compare_off_policy
from conch_schemas import GateCondition

PaidChoice = tuple[DrawnChoice, float, int]
"""A decision, its total and the revision of that."""


@dataclass(frozen=True)
class JudgedGeneration:
    """The outcome of a comparison."""

    better: OffPolicyVerdict
    """Whether the candidate earns more."""
    worse: bool
    """Whether it was shown to earn less, by the same test."""
    evidence: str
    """SHA-256 over the compared choices."""

    @property
    def conditions(self) -> tuple[GateCondition, ...]:
        """The conditions of `adapter.gated`."""
        found = self.better
        candidate, incumbent = found.candidate, found.incumbent
        return (
            GateCondition(
                name="difference",
                candidate=None if candidate is None else candidate.doubly_robust,
                incumbent=None if incumbent is None else incumbent.doubly_robust,
                holds=None if found.verdict == "inconclusive" else found.verdict == "passed",
                why=found.why,
            ),
        )


def judge(
    paid: Iterable[PaidChoice],
    candidate: LinUCB,
    incumbent: LinUCB,
    epsilon: float,
    limits: OffPolicyLimits,
    number: int,
) -> JudgedGeneration:
    """Compare the two. `paid`: choices that the candidate has not learnt from. `epsilon`: share of decisions that are
    drawn evenly. The expectation of the incumbent is the model of both, so that neither is judged by its own."""
    choices = [_logged(one, candidate, incumbent, epsilon) for one in paid]
    turned = [
        LoggedChoice(one.id, one.reward, one.propensity, one.incumbent, one.candidate, one.revision) for one in choices
    ]
    content = json.dumps([asdict(one) for one in choices], sort_keys=True).encode()
    return JudgedGeneration(
        compare_off_policy(choices, limits, number=number),
        compare_off_policy(turned, limits, number=number).verdict == "passed",
        hashlib.sha256(content).hexdigest(),
    )


def _logged(paid: PaidChoice, candidate: LinUCB, incumbent: LinUCB, epsilon: float) -> LoggedChoice:
    drawn, total, revision = paid
    expected = incumbent.expected(drawn.features)
    alike = list(drawn.alike)
    sides = []
    for bandit in (candidate, incumbent):
        chances = drawn.chances(bandit, epsilon)
        chance = min(1.0, float(chances[alike].sum()))
        sides.append(ActChance(chance, float(expected[alike[0]]), float(chances @ expected)))
    return LoggedChoice(str(drawn.cycle), total, drawn.propensity, sides[0], sides[1], revision)

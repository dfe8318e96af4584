"""Reward rules: how one is declared and described, how its answer becomes a verdict, and how several make one reward.

Pure: nothing here reads a bus, a store or a network, and no state is kept between two calls. Composition is public as
`conch.rewards.compose`.
"""

from conch.rules.advantages import (
    SPREAD,
    GroupAdvantages,
    compute_advantages,
    group_advantages,
    positives_and_negatives,
)
from conch.rules.combine import Gate, Sequential, WeightedSum
from conch.rules.declare import NAME, refuse_version, rule
from conch.rules.info import DeclaredRule, RuleInfo, declaration_of, declare_as, rule_of
from conch.rules.trajectory import Message, Trajectory, cache_key, length_penalty
from conch.rules.verdict import LARGEST, Rule, Verdict, required, verdict
from conch.rules.weighted import (
    WEIGHT_TOLERANCE,
    Batch,
    Weighted,
    WeightedRewardConfig,
    compute_weighted_reward,
    score_batch,
    sums_to_one,
)

__all__ = [
    "LARGEST",
    "NAME",
    "SPREAD",
    "WEIGHT_TOLERANCE",
    "Batch",
    "DeclaredRule",
    "Gate",
    "GroupAdvantages",
    "Message",
    "Rule",
    "RuleInfo",
    "Sequential",
    "Trajectory",
    "Verdict",
    "Weighted",
    "WeightedRewardConfig",
    "WeightedSum",
    "cache_key",
    "compute_advantages",
    "compute_weighted_reward",
    "declaration_of",
    "declare_as",
    "group_advantages",
    "length_penalty",
    "positives_and_negatives",
    "refuse_version",
    "required",
    "rule",
    "rule_of",
    "score_batch",
    "sums_to_one",
    "verdict",
]

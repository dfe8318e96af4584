"""Reward rules, constitution, weight set and total: pure functions of values."""

from conch.rewards.conduct import changes_something, constitution_scores, principles_of
from conch.rewards.constitution import (
    PRINCIPLES,
    Alignment,
    PrincipleScore,
    TurnResult,
    alignment,
    band,
    constitutional_reward,
    generative_score,
    score_principles,
)
from conch.rewards.rules import VERSION, builtin_scores, execution_reward, format_reward, goal_reward
from conch.rewards.total import Total, total_reward
from conch.rewards.weights import PluginPart, sums_to_one, weight_set, weights_version

__all__ = [
    "PRINCIPLES",
    "VERSION",
    "Alignment",
    "PluginPart",
    "PrincipleScore",
    "Total",
    "TurnResult",
    "alignment",
    "band",
    "builtin_scores",
    "changes_something",
    "constitution_scores",
    "constitutional_reward",
    "execution_reward",
    "format_reward",
    "generative_score",
    "goal_reward",
    "principles_of",
    "score_principles",
    "sums_to_one",
    "total_reward",
    "weight_set",
    "weights_version",
]

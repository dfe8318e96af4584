"""The rules of the reward, the constitution, the weight set and the total: pure functions of values."""

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
from conch.rewards.weights import weight_set, weights_version

__all__ = [
    "PRINCIPLES",
    "VERSION",
    "Alignment",
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
    "total_reward",
    "weight_set",
    "weights_version",
]

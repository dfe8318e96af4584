"""The rules of the reward, the weight set and the total: pure functions of values."""

from conch.rewards.rules import VERSION, builtin_scores, execution_reward, format_reward, goal_reward
from conch.rewards.total import Total, total_reward
from conch.rewards.weights import PluginPart, sums_to_one, weight_set, weights_version

__all__ = [
    "VERSION",
    "PluginPart",
    "Total",
    "builtin_scores",
    "execution_reward",
    "format_reward",
    "goal_reward",
    "sums_to_one",
    "total_reward",
    "weight_set",
    "weights_version",
]

"""Composition of rules into one reward: of one trajectory, of a batch, of a group of replies to one state.

    Message(role: str, content: str)
    Trajectory(messages: tuple[Message, ...], completion_tokens: tuple[int, ...] = (), facts: Mapping[str, object] = {})
    cache_key(messages: Iterable[Message | Mapping[str, object]]) -> str          32 hex digits
    length_penalty(trajectory: Trajectory) -> float                            in [0, 1]

A rule is a function, sync or async, from what is scored (a Trajectory or anything else) to a finite number or None (not
applicable). Nothing here keeps state between two calls.
"""

from conch.rules import (
    LARGEST,
    SPREAD,
    Batch,
    Gate,
    GroupAdvantages,
    Message,
    Rule,
    Sequential,
    Trajectory,
    Verdict,
    Weighted,
    WeightedRewardConfig,
    WeightedSum,
    cache_key,
    compute_advantages,
    compute_weighted_reward,
    group_advantages,
    length_penalty,
    positives_and_negatives,
    score_batch,
    verdict,
)

__all__ = [
    "LARGEST",
    "SPREAD",
    "Batch",
    "Gate",
    "GroupAdvantages",
    "Message",
    "Rule",
    "Sequential",
    "Trajectory",
    "Verdict",
    "Weighted",
    "WeightedRewardConfig",
    "WeightedSum",
    "cache_key",
    "compute_advantages",
    "compute_weighted_reward",
    "group_advantages",
    "length_penalty",
    "positives_and_negatives",
    "score_batch",
    "verdict",
]

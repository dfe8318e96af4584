"""Advantages for policy training: each reward relative to the others of its group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from conch.errors import ContractError
from conch.rules.verdict import LARGEST

POSITIVE, NEGATIVE = 0.3, -0.3
"""Least reward of a positive example, and greatest of a negative one."""
SPREAD: Final = 1e-8
"""A sample standard deviation up to this counts as 0."""


class GroupAdvantages(NamedTuple):
    """The advantages within groups of replies to one state."""

    advantages: tuple[float | None, ...]
    """In the order of the rewards; None where there was no reward."""
    flat: tuple[Hashable, ...]
    """Groups without spread, single replies included, in the order met: without a baseline their advantages are 0 and
    have no effect on training. A group without any score is not among them."""


def compute_advantages(rewards: Sequence[float], baseline: float | None = None, normalize: bool = True) -> list[float]:
    """Each reward minus `baseline` (None: the mean), of one group; [] for no rewards.

    `normalize`: divided by the sample standard deviation of the rewards, where there are several and it exceeds 1e-8.
    Raises ContractError for a reward or baseline that is not a finite number up to 1e150.
    """
    for reward in rewards if baseline is None else (*rewards, baseline):
        if not abs(reward) <= LARGEST:
            raise ContractError(f"advantages of {reward}: rewards are finite numbers, at most {LARGEST:g}")
    if not rewards:
        return []
    mean, deviation = _mean(rewards), _deviation(rewards)
    scale = deviation if normalize and deviation > SPREAD else 1.0
    return [(reward - (mean if baseline is None else baseline)) / scale for reward in rewards]


def group_advantages(
    rewards: Sequence[float | None],
    groups: Sequence[Hashable],
    *,
    baseline: float | None = None,
    normalize: bool = True,
) -> GroupAdvantages:
    """The advantage of each reward within its own group. An unscored one (None) is in no mean and has no advantage."""
    places: dict[Hashable, list[int]] = {}
    for place, (reward, group) in enumerate(zip(rewards, groups, strict=True)):
        if reward is not None:
            places.setdefault(group, []).append(place)
    found: list[float | None] = [None] * len(rewards)
    flat: list[Hashable] = []
    for group, of_group in places.items():
        values = [value for place in of_group if (value := rewards[place]) is not None]
        advantages = compute_advantages(values, baseline, normalize)
        if _deviation(values) <= SPREAD:
            flat.append(group)
            if baseline is None:  # the remainder is the mean's rounding
                advantages = [0.0] * len(values)
        for place, advantage in zip(of_group, advantages, strict=True):
            found[place] = advantage
    return GroupAdvantages(tuple(found), tuple(flat))


def positives_and_negatives(
    rewards: Sequence[float | None], positive_at: float = POSITIVE, negative_at: float = NEGATIVE
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of positive rewards (at or above `positive_at`) and of negative ones (at or below `negative_at`); an
    unscored one is neither."""
    scored = [(place, reward) for place, reward in enumerate(rewards) if reward is not None]
    positive = tuple(place for place, reward in scored if reward >= positive_at)
    return positive, tuple(place for place, reward in scored if reward <= negative_at)


def _mean(rewards: Sequence[float]) -> float:
    return math.fsum(rewards) / len(rewards)


def _deviation(rewards: Sequence[float]) -> float:
    """The sample standard deviation; 0 for a single reward."""
    if len(rewards) < 2:
        return 0.0
    mean = _mean(rewards)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1))

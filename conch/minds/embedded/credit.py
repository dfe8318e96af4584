"""Credit over the steps of a task: what a decision is worth beyond its own reward. Pure.

A task is the work on one goal. A decision is credited with the rewards of the next decisions for the same goal,
discounted by each step and counted above the mean reward of an act: a detour costs what an act earns on average, so a
step is worth taking only where it leads to more. Its own reward counts whole, so that with a discount of 0 what is
learnt is the reward alone: a contextual bandit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from conch.witness import GAMMA, chain_value

DISCOUNT: Final = GAMMA
"""Discount of one step of a task: the value agent's."""
STEPS: Final = 8
"""Decisions, the first one included, over which credit is given: the n of the n-step return."""
MEAN_RATE: Final = 0.02
"""Weight of the newest reward in the mean reward of an act: the mean is of the last 50 or so."""


def task_return(rewards: Sequence[float], mean: float, discount: float = DISCOUNT) -> float:
    """The n-step return of the first of these decisions for one goal: its own reward, and `discount`^i · (reward −
    `mean`) of the i-th behind it; at most STEPS of them count.

    `rewards` holds those that are known, in order, the first decision's first; it must not be empty. Found by the value
    agent, as the value of a chain. Raises ValueError for a discount outside [0, 1].
    """
    own, *later = rewards[:STEPS]
    return chain_value([own, *(reward - mean for reward in later)], discount)


def known_rewards(rewards: Iterable[float | None]) -> list[float]:
    """The rewards before the first one that is not known yet, STEPS at most."""
    known = takewhile(lambda reward: reward is not None, rewards)
    return [reward for reward, _ in zip(known, range(STEPS), strict=False) if reward is not None]


def mean_after(mean: float | None, reward: float) -> float:
    """The running mean reward of an act, after one more; None: there was none before."""
    return reward if mean is None else mean + MEAN_RATE * (reward - mean)

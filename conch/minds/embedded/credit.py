"""Credit over the steps of a task: what a decision is worth beyond its own reward. Pure.

A task is the work on one goal. A decision is credited with what the next decisions for the same goal earned above the
mean reward of an act, discounted by each step. At each of these steps the task may be left, for work that earns the
mean: a step is credited with the best of what followed, and a detour behind it costs it no more than what it led to.
Its own reward counts whole, so that with a discount of 0 what is learnt is the reward alone: a contextual bandit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Final, Literal

from conch.witness import GAMMA, ValueAgent

DISCOUNT: Final = GAMMA
"""Discount of one step of a task: the value agent's."""
STEPS: Final = 8
"""Decisions, the first one included, over which credit is given: the n of an n-step return."""
MEAN_RATE: Final = 0.02
"""Weight of the newest reward in the mean reward of an act: the mean is of the last 50 or so."""

_Move = Literal["go on", "leave"]
_MOVES: Final[tuple[_Move, ...]] = ("go on", "leave")


def task_return(rewards: Sequence[float], mean: float, discount: float = DISCOUNT) -> float:
    """What the first of these decisions for one goal is worth: its own reward, and `discount` times the value of the
    steps behind it, of which each earns its reward less `mean` and may be left for 0. At most STEPS decisions count.

    `rewards` holds those that are known, in order, the first decision's first; it must not be empty. The value is found
    by the value agent. Raises ValueError for a discount outside [0, 1].
    """
    own, *later = rewards[:STEPS]
    end = len(later)

    def next_step(step: int, move: _Move) -> int:
        return step + 1 if move == "go on" else end

    def earned(step: int, move: _Move) -> float:
        return later[step] - mean if move == "go on" else 0.0

    agent = ValueAgent(range(end), lambda _: _MOVES, next_step, earned, discount)
    return own + discount * agent.values().get(0, 0.0)


def known_rewards(rewards: Iterable[float | None]) -> list[float]:
    """The rewards before the first one that is not known yet, STEPS at most."""
    known = takewhile(lambda reward: reward is not None, rewards)
    return [reward for reward in islice(known, STEPS) if reward is not None]


def mean_after(mean: float | None, reward: float) -> float:
    """The running mean reward of an act, after one more; None: there was none before."""
    return reward if mean is None else mean + MEAN_RATE * (reward - mean)

"""An ε-greedy bandit over four actions, each a ridge regression of the reward on the features. Pure.

Of one action: A = λI + Σ x xᵀ, b = Σ r x, prediction = xᵀ A⁻¹ b. The numbers are plain floats: the same updates in the
same order give the same bits, and importing this costs nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict

TopologyChoice = Literal["stay", "star", "chain", "flat"]
CHOICES: Final[tuple[TopologyChoice, ...]] = get_args(TopologyChoice)
"""The actions, in the order in which ties are broken."""
RIDGE: Final = 0.01
"""λ."""
EPSILON_START, EPSILON_END, EPSILON_DECISIONS = 0.20, 0.05, 5000
"""ε falls from the first to the second over so many decisions, linearly, and stays there."""
DIMENSION: Final = 8

Vector = tuple[float, ...]


class RidgeModel(BaseModel):
    """The regression of one action."""

    model_config = ConfigDict(frozen=True)

    rows: tuple[Vector, ...]
    """A, row by row."""
    moment: Vector
    """b."""
    weights: Vector
    """A⁻¹ b."""


def empty_model(dimension: int = DIMENSION, ridge: float = RIDGE) -> RidgeModel:
    """The model before its first reward: it predicts 0."""
    rows = tuple(tuple(ridge if row == column else 0.0 for column in range(dimension)) for row in range(dimension))
    zeros = (0.0,) * dimension
    return RidgeModel(rows=rows, moment=zeros, weights=zeros)


def updated(model: RidgeModel, x: Sequence[float], reward: float) -> RidgeModel:
    """The model after one more reward for these features."""
    rows = tuple(
        tuple(value + one * other for value, other in zip(row, x, strict=True))
        for row, one in zip(model.rows, x, strict=True)
    )
    moment = tuple(value + reward * one for value, one in zip(model.moment, x, strict=True))
    return RidgeModel.model_construct(rows=rows, moment=moment, weights=_solved(rows, moment))


def predicted(model: RidgeModel, x: Sequence[float]) -> float:
    """The reward that the model expects for these features."""
    return sum(weight * one for weight, one in zip(model.weights, x, strict=True))


def epsilon(
    decisions: int, start: float = EPSILON_START, end: float = EPSILON_END, over: int = EPSILON_DECISIONS
) -> float:
    """The share of random choices after so many decisions, 0..1."""
    if over <= 0:
        return end
    return end + (start - end) * (1.0 - min(1.0, max(0, decisions) / over))


def greedy(models: Sequence[RidgeModel], x: Sequence[float]) -> int:
    """The place of the action with the highest prediction; of equals the first."""
    values = [predicted(model, x) for model in models]
    return values.index(max(values))


def chosen(models: Sequence[RidgeModel], x: Sequence[float], share: float, draws: random.Random) -> int:
    """The place of the action: with probability `share` any of them, else the greedy one."""
    if draws.random() < share:
        return draws.randrange(len(models))
    return greedy(models, x)


def _solved(rows: Sequence[Vector], right: Vector) -> Vector:
    """The solution of a positive definite system, by Cholesky's decomposition. A is at least λI, so no pivot is 0."""
    size = len(right)
    low = [[0.0] * size for _ in range(size)]
    for i in range(size):
        of_i = low[i]
        for j in range(i + 1):
            of_j = low[j]
            rest = rows[i][j] - sum(of_i[k] * of_j[k] for k in range(j))
            of_i[j] = max(rest, 1e-300) ** 0.5 if i == j else rest / of_j[j]
    forward = [0.0] * size
    for i in range(size):
        forward[i] = (right[i] - sum(low[i][k] * forward[k] for k in range(i))) / low[i][i]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (forward[i] - sum(low[k][i] * found[k] for k in range(i + 1, size))) / low[i][i]
    return tuple(found)

"""The controller of a team: which topology is asked for after each step, and what it learns from the rewards. A fold.

`learned` is the bandit; `frozen` chooses by what was learnt and learns nothing more; `fixed` always stays; `random`
draws. A decision that the coordinator refuses is learnt as what was carried out, `stay`; so is one whose switch was
aborted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from conch.folds import evolve
from conch.teams.bandit import (
    CHOICES,
    EPSILON_DECISIONS,
    EPSILON_END,
    EPSILON_START,
    RIDGE,
    RidgeModel,
    TopologyChoice,
    Vector,
    chosen,
    empty_model,
    epsilon,
    updated,
)

ControllerKind = Literal["learned", "frozen", "fixed", "random"]
MOST_PENDING: Final = 1000
"""Decisions whose reward has not come, at most; the oldest is given up first."""


class AwaitedReward(BaseModel):
    """A decision whose reward has not come yet."""

    model_config = ConfigDict(frozen=True)

    x: Vector
    carried_out: TopologyChoice


class ControllerState(BaseModel):
    """What the controller has learnt. Bounded."""

    model_config = ConfigDict(frozen=True)

    decisions: Annotated[int, Field(ge=0)] = 0
    rewards: Annotated[int, Field(ge=0)] = 0
    models: tuple[RidgeModel, ...] = ()
    """One for each of CHOICES; none before the first reward."""
    pending: dict[str, AwaitedReward] = {}
    """By the decision's id, the oldest first."""


class ControllerSetup(NamedTuple):
    """The constants of a controller."""

    kind: ControllerKind = "learned"
    ridge: float = RIDGE
    start: float = EPSILON_START
    end: float = EPSILON_END
    over: int = EPSILON_DECISIONS
    seed: int = 0


class TopologyDecision(NamedTuple):
    """A choice, with the share of random ones at that time."""

    action: TopologyChoice
    epsilon: float


def decided(state: ControllerState, x: Sequence[float], setup: ControllerSetup) -> TopologyDecision:
    """The choice for these features. The same state, features and setup give the same choice, so a decision that a
    crash interrupted is made alike."""
    draws = random.Random(f"{setup.seed}/{state.decisions}")  # noqa: S311 - exploration, no secret
    if setup.kind == "fixed":
        return TopologyDecision("stay", 0.0)
    if setup.kind == "random":
        return TopologyDecision(draws.choice(CHOICES), 1.0)
    share = 0.0 if setup.kind == "frozen" else epsilon(state.decisions, setup.start, setup.end, setup.over)
    return TopologyDecision(CHOICES[chosen(_models(state, setup.ridge), x, share, draws)], share)


def with_decision(state: ControllerState, id: str, x: Sequence[float], carried_out: TopologyChoice) -> ControllerState:
    """The state after a decision. One whose reward is awaited already changes nothing."""
    if id in state.pending:
        return state
    pending = {**state.pending, id: AwaitedReward(x=tuple(x), carried_out=carried_out)}
    while len(pending) > MOST_PENDING:
        del pending[next(iter(pending))]
    return evolve(state, decisions=state.decisions + 1, pending=pending)


def with_abort(state: ControllerState, id: str) -> ControllerState:
    """The state after the switch of a decision was aborted: its reward is that of staying. Unchanged for a decision
    whose reward is not awaited."""
    if (found := state.pending.get(id)) is None:
        return state
    return evolve(state, pending={**state.pending, id: evolve(found, carried_out="stay")})


def with_reward(
    state: ControllerState, id: str, reward: float, *, learns: bool = True, ridge: float = RIDGE
) -> ControllerState:
    """The state after the reward of a decision, however late. A reward that comes again, of a decision that is not
    known, or that is not finite, changes nothing."""
    found = state.pending.get(id)
    if found is None or not abs(reward) < float("inf"):
        return state
    rest = {other: decision for other, decision in state.pending.items() if other != id}
    if not learns:
        return evolve(state, pending=rest)
    models, at = list(_models(state, ridge)), CHOICES.index(found.carried_out)
    models[at] = updated(models[at], found.x, reward)
    return evolve(state, pending=rest, models=tuple(models), rewards=state.rewards + 1)


def _models(state: ControllerState, ridge: float) -> tuple[RidgeModel, ...]:
    return state.models or tuple(empty_model(ridge=ridge) for _ in CHOICES)

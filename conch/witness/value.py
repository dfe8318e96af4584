"""Policy traces, and a value agent that finds the value of each state by value iteration. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Final, Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)
A = TypeVar("A")

GAMMA: Final = 0.99
"""Discount of a value agent (REWARDS 12)."""
SWEEPS: Final = 100_000
"""Most sweeps of a value iteration: a discount of 0.9999 takes some 350,000 to shrink by 1e-15, 0.999 takes 35,000."""


class TraceStep(NamedTuple):
    """One step of a policy trace."""

    state: str
    action: str
    reward: float


@dataclass(frozen=True)
class PolicyTrace:
    """A walk folded into steps of state, action and reward, discounted by `gamma` in [0, 1]."""

    steps: tuple[TraceStep, ...] = ()
    gamma: float = GAMMA

    @property
    def total(self) -> float:
        """Σ gamma^i · reward over the steps."""
        return trace_total((step.reward for step in self.steps), self.gamma)


def trace_total(rewards: Iterable[float], gamma: float = GAMMA) -> float:
    """Σ gamma^i · reward; 0 without any. Raises ValueError for a discount outside [0, 1]."""
    _refuse_discount(gamma)
    return fsum(gamma**index * reward for index, reward in enumerate(rewards))


def chain_value(rewards: Sequence[float], gamma: float = GAMMA, terminal: float = 0.0) -> float:
    """The value of the first state of a chain with one action in each state, found by a value agent; `terminal` is the
    value of the state behind the last step."""
    agent = ValueAgent(
        states=range(len(rewards)),
        actions=lambda state: ("step",),
        transition=lambda state, action: state + 1,
        reward=lambda state, action: rewards[state],
        gamma=gamma,
        terminal={len(rewards): terminal},
    )
    return agent.values().get(0, terminal)


@dataclass(frozen=True)
class ValueAgent(Generic[S, A]):
    """A deterministic decision process, and its optimal values.

    A state without actions, and a state that is none of `states`, keeps its value in `terminal`, 0 where it has none.
    """

    states: Iterable[S]
    actions: Callable[[S], Sequence[A]]
    transition: Callable[[S, A], S]
    reward: Callable[[S, A], float]
    gamma: float = GAMMA
    """In [0, 1]. At 1 only a process without a rewarding cycle has values."""
    terminal: Mapping[S, float] = field(default_factory=dict)

    def values(self) -> dict[S, float]:
        """The value of each state: the fixed point of V(s) = max over a of reward(s, a) + gamma · V(transition(s, a)).

        Sweeps until no value changes any more. Raises ValueError for a discount outside [0, 1], and where there is no
        fixed point within SWEEPS sweeps.
        """
        _refuse_discount(self.gamma)
        # Backwards: the value of a chain whose states are given in order is found in one sweep.
        states = list(dict.fromkeys(self.states))[::-1]
        values = {state: self.terminal.get(state, 0.0) for state in states} | dict(self.terminal)
        for _ in range(SWEEPS):
            changed = False
            for state in states:
                best = self._best(state, values)
                if best is not None and not _same(best[0], values[state]):
                    values[state], changed = best[0], True
            if not changed:
                return {state: values[state] for state in states[::-1]}
            if not all(map(isfinite, values.values())):
                break
        raise ValueError(f"no fixed point after {SWEEPS} sweeps with a discount of {self.gamma:g}")

    def policy(self) -> dict[S, A]:
        """The best action in each state that has one; of equals the first."""
        values = self.values()
        known = values | {state: value for state, value in self.terminal.items() if state not in values}
        best = {state: self._best(state, known) for state in values}
        return {state: found[1] for state, found in best.items() if found is not None}

    def _best(self, state: S, values: Mapping[S, float]) -> tuple[float, A] | None:
        found: tuple[float, A] | None = None
        for action in self.actions(state):
            value = self.reward(state, action) + self.gamma * values.get(self.transition(state, action), 0.0)
            if found is None or value > found[0]:
                found = value, action
        return found


def _same(one: float, other: float) -> bool:
    """Equal but for rounding: the last bit of a value may swing for ever."""
    return abs(one - other) <= 1e-15 * max(1.0, abs(one), abs(other))


def _refuse_discount(gamma: float) -> None:
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"a discount lies in 0..1, {gamma:g} does not")

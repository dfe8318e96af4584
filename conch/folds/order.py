"""The order of an agent's acts: each counts once, and none from far beyond the last."""

from __future__ import annotations

from conch_schemas import ActionTaken, ContractViolationError

MOST_LEAP = 1_000_000
"""Cycles that an act may lie beyond the last one. Numbers have no gap, but a stream that came back from an older copy
leaves one; to believe a greater one would be to pass over every act until the agent has come there."""


def is_new(last: tuple[int, int] | None, act: ActionTaken) -> bool:
    """Whether `act` stands behind `last`, the place of the act that was handled last; None: of none.

    Raises ContractViolationError for an act from more than MOST_LEAP cycles beyond.
    """
    if last is None:
        return True
    if act.place[0] > last[0] + MOST_LEAP:
        raise ContractViolationError(f"cycle {act.cycle} of {act.agent} comes right behind cycle {last[0]}")
    return act.place > last

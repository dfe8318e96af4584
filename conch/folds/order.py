"""Order of an agent's acts: each is applied once, and an act too far ahead is refused."""

from __future__ import annotations

from conch_schemas import ActionTaken, ContractViolationError

MOST_LEAP = 1_000_000
"""Most cycles that an act may be ahead of the last one. Numbers have no gaps, but a stream restored from an older copy
leaves one; accepting a larger gap would skip every act until the agent reaches that number."""


def is_new(last: tuple[int, int] | None, act: ActionTaken) -> bool:
    """Whether `act` comes after `last`, (cycle, step) of the act applied last; None: there was none.

    Raises ContractViolationError for an act more than MOST_LEAP cycles ahead.
    """
    if last is None:
        return True
    if act.place[0] > last[0] + MOST_LEAP:
        raise ContractViolationError(f"cycle {act.cycle} of {act.agent} comes right behind cycle {last[0]}")
    return act.place > last

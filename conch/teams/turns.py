"""Which role has the turn in a step. Pure.

A chain goes round in its order. In a star every second turn is the planner's; between, the role that waits longest with
a message has it, else the next one in order. In a flat team the role that waits longest with a message has it, never
the same role twice in a row. A role whose turn was passed on, as it was silent, waits from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from conch.teams.router import RouterState
from conch.teams.topology import PLANNER, chain_order


def turn_of(
    router: RouterState,
    last: str | None,
    last_worker: str | None,
    roles: Sequence[str],
    passed: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """The role of the next turn. `last`: the role of the last one, None before the first; `last_worker`: the last one
    but the planner; `passed`: roles whose last turn was passed on, with the step of that. A role that rests is passed
    by no rule: each has its turn."""
    order = chain_order(roles)
    if last is None:
        return order[0]
    if router.topology == "chain":
        return _after(last, order)
    if router.topology == "star":
        return PLANNER if last != PLANNER else _waiting_longest(router, order[1:], last_worker, passed)
    others = tuple(role for role in order if role != last)
    return _waiting_longest(router, others, None, passed, default=_after(last, order))


def _waiting_longest(
    router: RouterState, roles: Sequence[str], last: str | None, passed: Mapping[str, int], default: str | None = None
) -> str:
    first = {
        role: max(inbox[0].step, passed.get(role, -1) + 1) for role in roles if (inbox := router.inboxes.get(role))
    }
    if first:
        return min(first, key=lambda role: (first[role], roles.index(role)))
    return default if default is not None else _after(last, roles)


def _after(role: str | None, order: Sequence[str]) -> str:
    return order[(order.index(role) + 1) % len(order)] if role in order else order[0]

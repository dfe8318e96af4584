"""Which role has the turn in a step. Pure.

A chain goes round in its order. In a star every second turn is the planner's; between, the role that waits longest with
a message has it, else the next one in order. In a flat team the role that waits longest with a message has it, never
the same role twice in a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from conch.teams.router import RouterState
from conch.teams.topology import PLANNER, chain_order


def turn_of(router: RouterState, last: str | None, last_worker: str | None, roles: Sequence[str]) -> str:
    """The role of the next step. `last`: the role of the last step, None before the first; `last_worker`: the last one
    but the planner. A role that is silent is passed by no rule: each has its turn."""
    order = chain_order(roles)
    if last is None:
        return order[0]
    if router.topology == "chain":
        return _after(last, order)
    if router.topology == "star":
        return PLANNER if last != PLANNER else _waiting_longest(router, order[1:], last_worker)
    others = tuple(role for role in order if role != last)
    return _waiting_longest(router, others, None, default=_after(last, order))


def _waiting_longest(router: RouterState, roles: Sequence[str], last: str | None, default: str | None = None) -> str:
    first = {role: inbox[0].step for role in roles if (inbox := router.inboxes.get(role))}
    if first:
        return min(first, key=lambda role: (first[role], roles.index(role)))
    return default if default is not None else _after(last, roles)


def _after(role: str | None, order: Sequence[str]) -> str:
    return order[(order.index(role) + 1) % len(order)] if role in order else order[0]

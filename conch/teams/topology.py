"""The three topologies of a team, and which role may send to which. Pure.

star: all through the planner, which alone broadcasts. chain: each role to the next one, the last to the planner. flat:
any role to any other, at most FAN_OUT at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

Topology = Literal["star", "chain", "flat"]
TOPOLOGIES: Final[tuple[Topology, ...]] = get_args(Topology)
"""In the order of the features and of the controller's actions."""
PLANNER: Final = "planner"
ROLES: Final = ("planner", "coder", "runner", "critic")
"""The roles of a team by default, in the order of the chain."""
BROADCAST: Final = "all"
"""Recipient of a message to every other role."""
FAN_OUT: Final = 2
"""Most recipients of one message in a flat team."""


def known_topology(name: str) -> Topology | None:
    """The topology of this name; None where there is none."""
    return next((one for one in TOPOLOGIES if one == name), None)


def next_in_chain(role: str, roles: Sequence[str]) -> str:
    """The role after this one; the planner follows the last one. Raises ValueError for a role that is not there."""
    order = chain_order(roles)
    return order[(order.index(role) + 1) % len(order)]


def chain_order(roles: Sequence[str]) -> tuple[str, ...]:
    """The roles with the planner first, the others in their order."""
    return (PLANNER, *(role for role in roles if role != PLANNER))


def recipients(topology: Topology, sender: str, to: Sequence[str], roles: Sequence[str]) -> tuple[str, ...]:
    """The roles that a message reaches, in the order of the team. `to`: names of roles, or BROADCAST alone.

    Raises ValueError, one sentence, where a role is unknown or the sender itself, or the topology does not allow it.
    """
    if sender not in roles:
        raise ValueError(f"the team has no role {sender[:60]!r}: its roles are {', '.join(roles)}")
    others = tuple(role for role in roles if role != sender)
    is_broadcast = tuple(to) == (BROADCAST,)
    wanted = others if is_broadcast else tuple(dict.fromkeys(to))
    _check_names(sender, wanted, roles)
    if topology == "star":
        _check_star(sender, wanted)
    elif topology == "chain" and wanted != (after := (next_in_chain(sender, roles),)):
        raise ValueError(f"in a chain {sender} sends to {after[0]} alone, not to {', '.join(wanted)}")
    elif topology == "flat" and len(wanted) > FAN_OUT:
        raise ValueError(f"in a flat team a message has at most {FAN_OUT} recipients, this one has {len(wanted)}")
    return tuple(role for role in roles if role in wanted)


def may_send(topology: Topology, sender: str, to: str, roles: Sequence[str] = ROLES) -> bool:
    """Whether one role may send to another one."""
    try:
        return bool(recipients(topology, sender, (to,), roles))
    except ValueError:
        return False


def reachable(topology: Topology, sender: str, roles: Sequence[str]) -> tuple[str, ...]:
    """The roles that this one may send to, in the order of the team."""
    return tuple(role for role in roles if may_send(topology, sender, role, roles))


def _check_names(sender: str, wanted: Sequence[str], roles: Sequence[str]) -> None:
    if not wanted:
        raise ValueError("the message has no recipient: name a role")
    for role in wanted:
        if role == sender:
            raise ValueError(f"{sender} cannot send a message to itself")
        if role not in roles:
            raise ValueError(f"the team has no role {role[:60]!r}: its roles are {', '.join(roles)}")


def _check_star(sender: str, wanted: Sequence[str]) -> None:
    if sender != PLANNER and tuple(wanted) != (PLANNER,):
        raise ValueError(f"in a star {sender} sends to the {PLANNER} alone, not to {', '.join(wanted)}")

"""Events of a team for tests: steps with messages, decisions and switches, as a team publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from conch_schemas import (
    Event,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
)

UID = str(uuid5(NAMESPACE_URL, "team"))
ROLES = ("planner", "coder", "runner", "critic")


def made(kind: type[Event], key: str, **data: Any) -> Any:
    """An event of a team, told from others by `key`."""
    return kind(
        id=str(uuid5(NAMESPACE_URL, f"{kind.TYPE}/{key}")),
        source=f"conch/crew/{UID}",
        agent="crew",
        **({"team": "crew"} | data),
    )


def formed(topology: str = "star", roles: Sequence[str] = ROLES, controller: str = "learned") -> TeamFormed:
    """The team begins."""
    event: TeamFormed = made(
        TeamFormed, f"{topology}/{controller}", roles=tuple(roles), topology=topology, controller=controller, ridge=0.01
    )
    return event


def message(number: int, sender: str, to: str, epoch: int = 0, step: int = 0) -> TeamMessage:
    """A message between two roles."""
    event: TeamMessage = made(
        TeamMessage, str(number), sender=sender, to=(to,), step=step, epoch=epoch, text=f"message {number}"
    )
    return event


def decided(step: int, action: str = "stay", refused: str | None = None, topology: str = "star") -> TeamDecided:
    """The controller chose after a step."""
    event: TeamDecided = made(
        TeamDecided,
        str(step),
        step=step,
        topology=topology,
        x=(1.0, 0.0, 0.0, 0.5, 0.25, 0.5, 0.25, 1.0),
        action=action,
        epsilon=0.2,
        ms=0.1,
        controller="learned",
        refused=refused,
    )
    return event


def rewarded(decision: str, reward: float, step: int = 1) -> TeamRewarded:
    """The step after a decision earned something."""
    event: TeamRewarded = made(TeamRewarded, decision, decision=decision, step=step, reward=reward)
    return event


def prepared(epoch: int, target: str, source: str = "star") -> TeamSwitchPrepared:
    """A switch was begun."""
    event: TeamSwitchPrepared = made(
        TeamSwitchPrepared, f"{epoch}/{target}", epoch=epoch, source_topology=source, target=target, by="user"
    )
    return event


def switched(epoch: int, topology: str) -> TeamSwitched:
    """A switch was committed."""
    event: TeamSwitched = made(TeamSwitched, f"{epoch}/{topology}", epoch=epoch, topology=topology)
    return event


def aborted(epoch: int) -> TeamSwitchAborted:
    """A switch was given up."""
    event: TeamSwitchAborted = made(TeamSwitchAborted, str(epoch), epoch=epoch, why="a role is full")
    return event

"""The events of a team: its roles, their messages, the controller's decisions and rewards, switches of the topology.

All belong to the agent of the team's name. A step of a team is a cycle of that agent.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event, Value

TeamTopology = Literal["star", "chain", "flat"]
TeamChoice = Literal["stay", "star", "chain", "flat"]
"""`stay`: the topology stays as it is."""
ControllerName = Literal["learned", "frozen", "fixed", "random"]
Step = Annotated[int, Field(ge=0)]
Epoch = Annotated[int, Field(ge=0)]


class TeamTurn(Value):
    """The turn of a role, in which an act was made."""

    team: str
    role: str
    step: Step
    """Number of the step, from 0, for ever."""
    epoch: Epoch
    topology: TeamTopology


class TeamLimits(Value):
    """The bounds of a team's router."""

    queued: Annotated[int, Field(ge=1)] = 100
    """Messages of one recipient that wait to be delivered, at most; then its sender is refused."""
    delivered: Annotated[int, Field(ge=1)] = 100
    """Delivered messages that a role has not read, at most; then the queue waits."""
    message_bytes: Annotated[int, Field(ge=1)] = 4096
    """Bytes of a message's text at most."""


class TeamFormed(Event):
    """A team begins, or goes on with other roles or another controller. The topology is that of its first step."""

    TYPE: ClassVar = "team.formed"
    type: Literal["conch.v1.team.formed"] = "conch.v1.team.formed"
    team: str
    roles: Annotated[tuple[str, ...], Field(min_length=2)]
    """In the order of the chain."""
    topology: TeamTopology
    controller: ControllerName
    ridge: Annotated[float, Field(gt=0)]
    """λ of the controller's regressions."""
    limits: TeamLimits = TeamLimits()


class TeamMessage(Event):
    """A role sent a message to other roles of its team."""

    TYPE: ClassVar = "team.message"
    type: Literal["conch.v1.team.message"] = "conch.v1.team.message"
    team: str
    sender: str
    """The role that sent it."""
    to: Annotated[tuple[str, ...], Field(min_length=1)]
    """The roles that it reaches."""
    step: Step
    epoch: Epoch
    """The epoch that it belongs to: the active one, or the next one while a switch is prepared."""
    text: str
    is_report: bool = False
    """Whether the team reported the act for its role, which sent nothing itself."""


class TeamPassed(Event):
    """A role had the turn and its worker did not answer in time: the turn went to the next role."""

    TYPE: ClassVar = "team.passed"
    type: Literal["conch.v1.team.passed"] = "conch.v1.team.passed"
    team: str
    role: str
    """The role that was silent."""
    step: Step
    """The step in progress, which another role makes."""
    epoch: Epoch
    why: str


class TeamDecided(Event):
    """The controller chose after a step."""

    TYPE: ClassVar = "team.decided"
    type: Literal["conch.v1.team.decided"] = "conch.v1.team.decided"
    team: str
    step: Step
    topology: TeamTopology
    """The active topology."""
    x: Annotated[tuple[float, ...], Field(min_length=8, max_length=8)]
    """The features: star, chain, flat, dwelt, planner, coder_runner, critic, headroom."""
    action: TeamChoice
    """What was chosen."""
    epsilon: Annotated[float, Field(ge=0, le=1)]
    """Share of random choices at that time."""
    ms: Annotated[float, Field(ge=0)]
    """Milliseconds that the decision took."""
    controller: ControllerName
    refused: str | None = None
    """Why no switch was begun though one was chosen: unknown, same, busy, cooldown, dwell; None: none was refused."""


class TeamRewarded(Event):
    """The step that followed a decision earned this. The controller learns it once, however late it comes."""

    TYPE: ClassVar = "team.rewarded"
    type: Literal["conch.v1.team.rewarded"] = "conch.v1.team.rewarded"
    team: str
    decision: str
    """Id of the `team.decided`."""
    step: Step
    """The step that earned it."""
    reward: float
    """The step's reward by the progress rule, with the bonus of the end where `terminal`."""
    terminal: bool = False


class TeamSwitchPrepared(Event):
    """A switch of the topology was begun: messages from now on wait for the next epoch."""

    TYPE: ClassVar = "team.switch_prepared"
    type: Literal["conch.v1.team.switch_prepared"] = "conch.v1.team.switch_prepared"
    team: str
    epoch: Epoch
    """The active epoch."""
    source_topology: TeamTopology
    """The active topology."""
    target: TeamTopology
    by: Literal["controller", "user"]


class TeamSwitched(Event):
    """A prepared switch was committed: from now on the next epoch is active."""

    TYPE: ClassVar = "team.switched"
    type: Literal["conch.v1.team.switched"] = "conch.v1.team.switched"
    team: str
    epoch: Epoch
    """The epoch that became active."""
    topology: TeamTopology
    """The topology that became active."""
    ms: Annotated[float, Field(ge=0)] = 0.0
    """Milliseconds since this process prepared it."""


class TeamSwitchAborted(Event):
    """A prepared switch was given up: the epoch stays, and what waited for the next one follows what was queued."""

    TYPE: ClassVar = "team.switch_aborted"
    type: Literal["conch.v1.team.switch_aborted"] = "conch.v1.team.switch_aborted"
    team: str
    epoch: Epoch
    """The epoch that stays active."""
    why: str

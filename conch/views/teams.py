"""Teams as they are shown: from the stream's facts of each team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from conch.cycle.team.context import team_of
from conch.teams import PLANNER, RoleState, TeamState
from conch.views.base import View
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    Event,
    ExperienceRecorded,
    TeamMessage,
    TeamSwitched,
    decode,
    subject_filter,
)

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.config import Settings

MOST_MESSAGES = 200
"""Messages of a team that are shown, the last ones."""


class TeamRow(View):
    """A team in the list."""

    team: str
    roles: tuple[str, ...]
    topology: str
    controller: str
    steps: int
    epoch: int
    tokens: int


class TeamList(View):
    """The teams of the configuration."""

    teams: tuple[TeamRow, ...]


class TeamRoleRow(View):
    """What one role did."""

    role: str
    turns: int
    messages: int
    tokens: int
    mean_reward: float | None
    """Mean total of its recorded acts; None: none is recorded."""


class TeamSwitchRow(View):
    """A committed switch."""

    step: int
    """Steps before it."""
    epoch: int
    topology: str
    ms: float


class TeamMessageRow(View):
    """A message between roles."""

    step: int
    epoch: int
    sender: str
    to: tuple[str, ...]
    text: str
    is_report: bool


class TeamView(View):
    """One team."""

    team: str
    topology: str
    epoch: int
    steps: int
    tokens: int
    turn: str
    """The role that has the next turn."""
    controller: str
    decisions: int
    rewards: int
    """Rewards that the controller has learnt from."""
    by_role: tuple[TeamRoleRow, ...]
    switches: tuple[TeamSwitchRow, ...]
    messages: tuple[TeamMessageRow, ...]
    """The last ones, MOST_MESSAGES at most, the newest last."""


class TeamSwitchAnswer(View):
    """The reply to a person's request for a topology."""

    accepted: bool
    committed: bool
    reason: str
    """`prepared`, `same`, or why it was refused: `busy`, `cooldown`, `dwell`, `unknown`."""
    epoch: int


class TeamStopping(View):
    """A team was told to end after its step."""

    team: str
    stopping: bool


class _TeamHistory:
    """What the stream says of one team."""

    def __init__(self) -> None:
        self._steps = 0
        self.switches: list[TeamSwitchRow] = []
        self.messages: list[TeamMessageRow] = []
        self._role_of: dict[str, str] = {}
        self._totals: dict[str, dict[str, float]] = {}

    def add(self, event: Event) -> None:
        match event:
            case ActionTaken(team=turn) if turn is not None and event.action_id is not None:
                self._role_of[event.action_id] = turn.role
                self._steps = turn.step + 1
            case ExperienceRecorded() if event.action_id in self._role_of and event.total is not None:
                self._totals.setdefault(self._role_of[event.action_id], {})[event.action_id] = event.total
            case TeamSwitched():
                row = TeamSwitchRow(step=self._steps, epoch=event.epoch, topology=event.topology, ms=event.ms)
                self.switches.append(row)
            case TeamMessage():
                names = ("step", "epoch", "sender", "to", "text", "is_report")
                self.messages.append(TeamMessageRow(**{name: getattr(event, name) for name in names}))

    def mean_reward(self, role: str) -> float | None:
        totals = self._totals.get(role)
        return sum(totals.values()) / len(totals) if totals else None


def teams_shown(settings: Settings, states: Mapping[str, TeamState | None]) -> TeamList:
    """All teams of the settings. `states`: of each, as of now; None: it has not begun."""
    return TeamList(teams=tuple(_row(settings, name, states.get(name)) for name in sorted(settings.team)))


def _row(settings: Settings, name: str, state: TeamState | None) -> TeamRow:
    own = team_of(settings, name)
    assert own is not None
    return TeamRow(
        team=name,
        roles=tuple(own.roles) if state is None else state.roles,
        topology=own.topology if state is None else state.router.topology,
        controller=own.controller.kind,
        steps=0 if state is None else state.next_step,
        epoch=0 if state is None else state.router.epoch,
        tokens=0 if state is None else state.tokens,
    )


async def team_shown(bus: Bus, settings: Settings, name: str, state: TeamState | None) -> TeamView:
    """One team of the settings, with what the stream has of it. `state`: as of now; None: it has not begun."""
    found, row = await _history(bus, name), _row(settings, name, state)
    by_role = {} if state is None else state.by_role
    return TeamView(
        team=name,
        topology=row.topology,
        epoch=row.epoch,
        steps=row.steps,
        tokens=row.tokens,
        turn=PLANNER if state is None else state.turn,
        controller=row.controller,
        decisions=0 if state is None else state.controller.decisions,
        rewards=0 if state is None else state.controller.rewards,
        by_role=tuple(_role(role, by_role.get(role, RoleState()), found) for role in row.roles),
        switches=tuple(found.switches),
        messages=tuple(found.messages[-MOST_MESSAGES:]),
    )


def _role(role: str, did: RoleState, found: _TeamHistory) -> TeamRoleRow:
    return TeamRoleRow(
        role=role,
        turns=did.turns,
        messages=did.messages,
        tokens=did.tokens,
        mean_reward=found.mean_reward(role),
    )


async def _history(bus: Bus, name: str) -> _TeamHistory:
    found, kinds = _TeamHistory(), (ActionTaken, TeamMessage, TeamSwitched, ExperienceRecorded)
    async for delivery in bus.read([subject_filter(kind, name) for kind in kinds], after=0):
        try:
            found.add(decode(delivery.data))
        except ContractViolationError:
            continue  # its consumers write a dead letter for it
    return found

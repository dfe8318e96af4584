"""Teams as they are shown: from the stream's facts of each team."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from conch.cycle.team.context import team_of
from conch.teams import PLANNER, TOPOLOGIES, RoleState, TeamState
from conch.views.base import View
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    Event,
    ExperienceRecorded,
    TeamMessage,
    TeamRewarded,
    TeamSwitched,
    decode,
    subject_filter,
)

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.config import Settings

MOST_MESSAGES: Final = 200
"""Messages of a team that are shown, the last ones."""
MOST_STEPS: Final = 200
"""Steps of a team that are shown one by one, the last ones; as many switches."""
_REVISED: Final = 10_000
"""Acts whose total is corrected by a later revision of their experience, the last ones."""
SWITCH_REFUSALS: Final = {
    "busy": "another switch is prepared, wait for the end of the step",
    "cooldown": "it switched a moment ago, wait some steps (team.NAME.controller.cooldown)",
    "dwell": "its topology has not stood long enough, wait some steps (team.NAME.controller.dwell)",
    "unknown": "there is no such topology",
}
"""By the reason in a reply to a request for a topology: what a person is told."""


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
    waiting: int
    """Messages to it that it has not read."""


class TeamSwitchRow(View):
    """A committed switch."""

    step: int
    """Steps before it."""
    epoch: int
    topology: str
    ms: float


class TeamStepRow(View):
    """A step."""

    step: int
    cycle: int | None
    """The cycle of its act."""
    role: str
    """The role that had the turn."""
    topology: str
    reward: float | None
    """What the controller learnt that it earned; None: nothing yet."""


class TeamTopologyRow(View):
    """What the team earned under one topology."""

    topology: str
    steps: int
    mean_reward: float | None
    """Mean reward of a step; None: no step of it was rewarded."""


class TeamMessageRow(View):
    """A message between roles."""

    id: str
    cycle: int | None
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
    by_topology: tuple[TeamTopologyRow, ...]
    switches: tuple[TeamSwitchRow, ...]
    """The last ones, MOST_STEPS at most."""
    target: str | None
    """The topology that a switch is prepared for; None: none is."""
    last_steps: tuple[TeamStepRow, ...]
    """MOST_STEPS at most, the newest last."""
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


class TeamHistory:
    """What the stream says of one team; a later look reads what is new."""

    def __init__(self, name: str, most: int | None = None) -> None:
        """`most`: the last so many facts of the stream are looked at; None: all."""
        self._name, self._most = name, most
        self._forget("")

    def _forget(self, epoch: str) -> None:
        self._epoch, self._read = epoch, 0
        self.steps: deque[TeamStepRow] = deque(maxlen=MOST_STEPS)
        self.switches: deque[TeamSwitchRow] = deque(maxlen=MOST_STEPS)
        self.messages: deque[TeamMessageRow] = deque(maxlen=MOST_MESSAGES)
        self._total_of: dict[str, float] = {}
        self._totals, self._recorded = defaultdict[str, float](float), Counter[str]()
        self._earned, self._rewarded, self._in = defaultdict[str, float](float), Counter[str](), Counter[str]()

    async def look(self, bus: Bus) -> TeamHistory:
        """Itself as of now. One look at a time. Raises BusError."""
        stream = await bus.state()
        if stream.epoch != self._epoch:
            self._forget(stream.epoch)
            self._read = 0 if self._most is None else max(0, stream.last - self._most)
        after, self._read = self._read, max(self._read, stream.last)
        kinds = (ActionTaken, TeamMessage, TeamSwitched, TeamRewarded, ExperienceRecorded)
        async for delivery in bus.read([subject_filter(kind, self._name) for kind in kinds], after=after):
            self._read = max(self._read, delivery.seq)
            try:
                self._add(decode(delivery.data))
            except ContractViolationError:
                continue  # its consumers write a dead letter for it
        return self

    def _add(self, event: Event) -> None:
        match event:
            case ActionTaken(team=turn) if turn is not None and turn.step > self._last_step:
                row = TeamStepRow(
                    step=turn.step, cycle=event.cycle, role=turn.role, topology=turn.topology, reward=None
                )
                self.steps.append(row)
                self._in[turn.topology] += 1
            case ExperienceRecorded(team=turn) if turn is not None and event.total is not None:
                self._record(turn.role, event.action_id or event.id, event.total)
            case TeamRewarded():
                self._reward(event)
            case TeamSwitched():
                switch = TeamSwitchRow(
                    step=self._last_step + 1, epoch=event.epoch, topology=event.topology, ms=event.ms
                )
                self.switches.append(switch)
            case TeamMessage() if all(event.id != one.id for one in self.messages):
                names = ("id", "cycle", "step", "epoch", "sender", "to", "text", "is_report")
                self.messages.append(TeamMessageRow(**{name: getattr(event, name) for name in names}))

    @property
    def _last_step(self) -> int:
        return self.steps[-1].step if self.steps else -1

    def _record(self, role: str, act: str, total: float) -> None:
        before = self._total_of.pop(act, None)
        self._totals[role] += total - (before or 0.0)
        self._recorded[role] += before is None
        self._total_of[act] = total
        if len(self._total_of) > _REVISED:
            del self._total_of[next(iter(self._total_of))]

    def _reward(self, event: TeamRewarded) -> None:
        for place, one in enumerate(self.steps):
            if one.step == event.step and one.reward is None:
                self.steps[place] = one.model_copy(update={"reward": event.reward})
                self._rewarded[one.topology] += 1
                self._earned[one.topology] += event.reward
                return

    def mean_reward(self, role: str) -> float | None:
        """Mean total of a role's recorded acts; None: none is recorded."""
        return self._totals[role] / self._recorded[role] if self._recorded[role] else None

    def by_topology(self) -> tuple[TeamTopologyRow, ...]:
        """What was earned under each topology."""
        return tuple(
            TeamTopologyRow(
                topology=one,
                steps=self._in[one],
                mean_reward=self._earned[one] / self._rewarded[one] if self._rewarded[one] else None,
            )
            for one in TOPOLOGIES
        )


def teams_shown(settings: Settings, states: Mapping[str, TeamState | None]) -> TeamList:
    """All teams of the settings. `states`: of each, as of now; None: it has not begun."""
    rows = (team_row(settings, name, states.get(name)) for name in sorted(settings.team))
    return TeamList(teams=tuple(row for row in rows if row is not None))


def team_row(settings: Settings, name: str, state: TeamState | None) -> TeamRow | None:
    """A team in the list. `state`: as of now; None: it has not begun. Returns None for an agent that is no team."""
    own = team_of(settings, name)
    if state is not None:
        return TeamRow(
            team=name,
            roles=state.roles,
            topology=state.router.topology,
            controller=state.controller_kind if own is None else own.controller.kind,
            steps=state.next_step,
            epoch=state.router.epoch,
            tokens=state.tokens,
        )
    if own is None:
        return None
    topology, controller = own.topology, own.controller.kind
    return TeamRow(
        team=name, roles=tuple(own.roles), topology=topology, controller=controller, steps=0, epoch=0, tokens=0
    )


async def team_shown(bus: Bus, settings: Settings, name: str, state: TeamState | None) -> TeamView:
    """One team of the settings, with what the stream has of it. `state`: as of now; None: it has not begun."""
    row = team_row(settings, name, state)
    assert row is not None
    return team_view(row, state, await TeamHistory(name).look(bus))


def team_view(row: TeamRow, state: TeamState | None, found: TeamHistory) -> TeamView:
    """One team, from its row, its state and its history."""
    by_role = {} if state is None else state.by_role
    return TeamView(
        team=row.team,
        topology=row.topology,
        epoch=row.epoch,
        steps=row.steps,
        tokens=row.tokens,
        turn=PLANNER if state is None else state.turn,
        controller=row.controller,
        decisions=0 if state is None else state.controller.decisions,
        rewards=0 if state is None else state.controller.rewards,
        by_role=tuple(_role(role, by_role.get(role, RoleState()), state, found) for role in row.roles),
        by_topology=found.by_topology(),
        switches=tuple(found.switches),
        target=None if state is None else state.router.target,
        last_steps=tuple(found.steps),
        messages=tuple(found.messages),
    )


def _role(role: str, did: RoleState, state: TeamState | None, found: TeamHistory) -> TeamRoleRow:
    return TeamRoleRow(
        role=role,
        turns=did.turns,
        messages=did.messages,
        tokens=did.tokens,
        mean_reward=found.mean_reward(role),
        waiting=0 if state is None else state.router.unread(role),
    )

"""The state of a team as a fold over its events: router, coordinator, controller, turns. Pure.

An event that was applied before changes nothing, so the state after a crash is that of the stream, in one epoch.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from conch.folds import evolve
from conch.rewards.progress import final_bonus, step
from conch.teams import router
from conch.teams.controller import ControllerKind, ControllerState, with_abort, with_decision, with_reward
from conch.teams.coordinator import CoordinatorState, stepped, switched
from conch.teams.features import WINDOW, feature_vector
from conch.teams.router import Messages, RoutedMessage, RouterLimits, RouterState
from conch.teams.topology import PLANNER, ROLES
from conch.teams.turns import turn_of
from conch_schemas import (
    ActionTaken,
    Event,
    TaskProgressed,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
)

TEAM_KINDS: Final[tuple[type[Event], ...]] = (
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamDecided,
    TeamRewarded,
    TeamSwitchPrepared,
    TeamSwitched,
    TeamSwitchAborted,
)
"""The events that only a team itself publishes."""

APPLIED: Final = 128
"""Ids of applied events that are kept."""
_Count = Annotated[int, Field(ge=0)]


class _TeamModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class RoleState(_TeamModel):
    """What one role did."""

    turns: _Count = 0
    messages: _Count = 0
    tokens: _Count = 0
    """Output tokens of its thoughts and decisions."""


class TaskStanding(_TeamModel):
    """The task after its last step, as the progress rule compares it."""

    episode: str | None = None
    phase: str | None = None
    roles: dict[str, float] | None = None
    test_pass_rate: float = 0.0
    tokens_used: _Count = 0


class EarnedStep(_TeamModel):
    """The reward of the last step, which the decision before it earned."""

    event: str
    """Id of the `task.progressed`."""
    step: _Count
    reward: float
    terminal: bool


class DecisionRecord(_TeamModel):
    """A decision with what came of it, as the log has it."""

    step: _Count
    topology: str
    x: tuple[float, ...]
    action: str
    epsilon: float
    ms: float
    attempted: bool
    """Whether another topology was chosen."""
    committed: bool = False
    epoch: _Count
    """The active epoch after it."""
    error: str | None = None
    """Why the switch was refused or aborted; None: it was not."""
    topology_after: str | None = None
    """The topology after a committed switch; None: it stays."""

    @property
    def is_open(self) -> bool:
        """Whether a switch was chosen and has no end yet."""
        return self.attempted and not self.committed and self.error is None


class TeamState(_TeamModel):
    """A team. Bounded by its router's limits, the window and the controller."""

    roles: tuple[str, ...] = ROLES
    limits: RouterLimits = RouterLimits()
    controller_kind: ControllerKind = "learned"
    ridge: float = 0.01
    formed: str | None = None
    """Id of the last `team.formed`."""
    router: RouterState = RouterState()
    coordinator: CoordinatorState = CoordinatorState()
    controller: ControllerState = ControllerState()
    next_step: _Count = 0
    by_role: dict[str, RoleState] = {}
    last: str | None = None
    """The role that had the last turn."""
    last_worker: str | None = None
    """The last role that had the turn but the planner."""
    passes: _Count = 0
    """Turns of the step in progress whose role was silent."""
    passed: dict[str, int] = {}
    """Roles whose last turn was passed on, with the step of that."""
    window: tuple[tuple[str, ...], ...] = ()
    """The senders of the last finished steps' messages, WINDOW steps at most."""
    sending: tuple[str, ...] = ()
    """The senders in the step in progress."""
    decided_step: int = -1
    """The last step after which the controller chose; -1: none."""
    decision: str | None = None
    """Id of the last decision, whose reward the next step earns; None: it has it, or there is none."""
    last_decision: DecisionRecord | None = None
    messaged_step: int = -1
    """The last step in which a message was sent."""
    task: TaskStanding = TaskStanding()
    earned: EarnedStep | None = None
    switched_since: bool = False
    """Whether a switch was committed since the last step of the task."""
    applied: tuple[str, ...] = ()
    """Ids of the last events that were applied, APPLIED at most: a team hears its own events once more, later."""

    @property
    def turn(self) -> str:
        """The role that has the next turn."""
        return turn_of(self.router, self.last, self.last_worker, self.roles, self.passed)

    @property
    def tokens(self) -> int:
        """Output tokens of all roles."""
        return sum(role.tokens for role in self.by_role.values())

    def inbox(self, role: str) -> Messages:
        """The delivered messages of a role, in the order in which they were sent to it."""
        return self.router.inboxes.get(role, ())

    def features(self, token_budget: int, dwell: int) -> tuple[float, ...]:
        """What the controller sees now."""
        senders = [sender for step in (*self.window, self.sending) for sender in step]
        since, tokens = self.coordinator.since_switch, self.task.tokens_used
        return feature_vector(self.router.topology, since, senders, tokens, token_budget, dwell=dwell)


def followed(state: TeamState, event: Event) -> TeamState:
    """The state after an event. Others than TEAM_KINDS, acts of the team and steps of its task change nothing."""
    if event.id in state.applied:
        return state
    after = _applied(state, event)
    if after is state:
        return state
    return evolve(after, applied=(*state.applied, event.id)[-APPLIED:])


def _applied(state: TeamState, event: Event) -> TeamState:
    match event:
        case TeamFormed():
            return _formed(state, event)
        case TeamMessage():
            return _messaged(state, event)
        case ActionTaken(team=turn) if turn is not None and turn.step >= state.next_step:
            return _acted(state, event)
        case TeamPassed() if event.step == state.next_step:
            return _passed(state, event)
        case TaskProgressed():
            return _progressed(state, event)
        case TeamRewarded():
            learns = state.controller_kind == "learned"
            learnt = with_reward(state.controller, event.decision, event.reward, learns=learns, ridge=state.ridge)
            rest = None if state.decision == event.decision else state.decision
            return evolve(state, controller=learnt, decision=rest)
        case TeamDecided() if event.step > state.decided_step:
            return _decided(state, event)
        case TeamSwitchPrepared() if event.epoch == state.router.epoch:
            return evolve(state, router=router.prepared(state.router, event.target))
        case TeamSwitched() if event.epoch == state.router.epoch + 1:
            after = router.committed(state.router, state.limits)
            if after.epoch == state.router.epoch:
                return state
            last = _ended(state.last_decision, committed=True, epoch=event.epoch, topology_after=event.topology)
            return evolve(state, router=after, coordinator=switched(), switched_since=True, last_decision=last)
        case TeamSwitchAborted() if event.epoch == state.router.epoch and state.router.target is not None:
            last, controller = _ended(state.last_decision, error=event.why), state.controller
            if last is not state.last_decision and state.decision is not None:
                controller = with_abort(controller, state.decision)
            after = router.aborted(state.router, state.limits)
            return evolve(state, router=after, last_decision=last, controller=controller)
    return state


def _formed(state: TeamState, event: TeamFormed) -> TeamState:
    limits = RouterLimits(event.limits.queued, event.limits.delivered, event.limits.message_bytes)
    known: dict[str, object] = {
        "roles": event.roles,
        "limits": limits,
        "controller_kind": event.controller,
        "ridge": event.ridge,
    }
    if state.formed is None:
        known["router"] = evolve(state.router, topology=event.topology)
    return evolve(state, formed=event.id, **known)


def _messaged(state: TeamState, event: TeamMessage) -> TeamState:
    after = state.router
    for to in event.to:
        message = RoutedMessage(
            id=f"{event.id}/{to}",
            sender=event.sender,
            to=to,
            text=event.text,
            step=event.step,
            epoch=event.epoch,
        )
        after = router.sent(after, message, state.limits)
    if after is state.router:
        return state
    role = state.by_role.get(event.sender, RoleState())
    return evolve(
        state,
        router=after,
        sending=(*state.sending, event.sender),
        messaged_step=max(state.messaged_step, event.step),
        by_role={**state.by_role, event.sender: evolve(role, messages=role.messages + 1)},
    )


def _acted(state: TeamState, act: ActionTaken) -> TeamState:
    assert act.team is not None
    role = act.team.role
    after, _ = router.taken(state.router, role, state.limits)
    did = state.by_role.get(role, RoleState())
    did = evolve(did, turns=did.turns + 1, tokens=did.tokens + act.usage.output_tokens)
    if state.decided_step + 1 < state.next_step:  # no decision ended the step before: it was the last one of a task
        state = _with_window(state)
    return evolve(
        state,
        router=after,
        coordinator=stepped(state.coordinator),
        next_step=act.team.step + 1,
        by_role={**state.by_role, role: did},
        last=role,
        last_worker=state.last_worker if role == PLANNER else role,
        passes=0,
        passed={other: step for other, step in state.passed.items() if other != role},
        earned=None,
    )


def _passed(state: TeamState, event: TeamPassed) -> TeamState:
    """The next role has the turn; the silent one keeps its messages, and waits as if they had come now."""
    return evolve(
        state,
        last=event.role,
        last_worker=state.last_worker if event.role == PLANNER else event.role,
        passes=state.passes + 1,
        passed={**state.passed, event.role: event.step},
    )


def _progressed(state: TeamState, event: TaskProgressed) -> TeamState:
    """The task's standing; of a step that an act made, what it earned. A standing that was measured without an act is
    what the next step is compared with."""
    before = state.task if state.task.episode == event.episode else TaskStanding(episode=event.episode)
    rate, tokens = event.test_pass_rate, event.tokens_used
    after = TaskStanding(
        episode=event.episode,
        phase=event.phase,
        roles=event.roles,
        test_pass_rate=before.test_pass_rate if rate is None else rate,
        tokens_used=before.tokens_used if tokens is None else tokens,
    )
    if event.action_id is None:
        return evolve(state, task=after)
    value = step(before.__dict__, {**after.__dict__, "switch_committed": event.switch_committed}).value
    value += final_bonus(event.terminal and after.test_pass_rate >= 1.0)
    earned = EarnedStep(event=event.id, step=max(0, state.next_step - 1), reward=value, terminal=event.terminal)
    return evolve(state, task=after, earned=earned, switched_since=False)


def _decided(state: TeamState, event: TeamDecided) -> TeamState:
    carried_out = "stay" if event.refused is not None else event.action
    record = DecisionRecord(
        step=event.step,
        topology=event.topology,
        x=event.x,
        action=event.action,
        epsilon=event.epsilon,
        ms=event.ms,
        attempted=event.action not in ("stay", event.topology),
        epoch=state.router.epoch,
        error=event.refused,
    )
    return evolve(
        _with_window(state),
        controller=with_decision(state.controller, event.id, event.x, carried_out),
        decision=event.id,
        decided_step=event.step,
        last_decision=record,
    )


def _with_window(state: TeamState) -> TeamState:
    """The state with the senders of the step in progress among the finished ones."""
    return evolve(state, window=(*state.window, state.sending)[-WINDOW:], sending=())


def _ended(record: DecisionRecord | None, **end: object) -> DecisionRecord | None:
    """The record of the decision whose switch ended; unchanged where it chose none, as a person's switch."""
    return evolve(record, **end) if record is not None and record.is_open else record

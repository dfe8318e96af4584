"""An agent's memory as a pure fold over its events, so that a crash loses nothing."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from conch.actions import effect_of
from conch.cycle.budget.ledger import BudgetLedger
from conch.cycle.effects.phases import ROLE_WINDOW, ActPhase, phase_of
from conch.cycle.grounding.sensors import SensorReading, heard
from conch.cycle.sleep.state import SleepState
from conch.cycle.state.acts import RecentAct, remembered_act, with_act
from conch.cycle.state.effects import touched
from conch.cycle.state.rewards import with_lesson, with_reward
from conch.cycle.state.sessions import AnsweredTurn, answered_message, with_rating, with_turn
from conch.cycle.state.work import WorkLedger
from conch.folds import MOST_LEAP
from conch.minds import ActReward, Lesson, Purpose, RecentOutcome
from conch.teams import TEAM_KINDS, TeamState, followed
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    Action,
    ActionDecided,
    ActionTaken,
    AdapterShadowed,
    AgentSlept,
    AgentWoke,
    AnsweredMessage,
    AnswerRated,
    BudgetReached,
    BudgetReserved,
    CycleReflected,
    Event,
    ExperienceRecorded,
    Goal,
    GoalAccepted,
    GoalCheck,
    GoalDropped,
    GoalReached,
    GoalSet,
    MemoryConsolidated,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    PolicySet,
    SenseMeasured,
    TaskProgressed,
    ThoughtFormed,
    ThoughtGrounded,
    Usage,
    task_step_id,
)

HOUR = 3600.0
TICK = 10.0
"""Seconds of token use that are summed into one entry."""
MOST_TICKS = 400
MOST_WAITING = 1000
"""Most messages that wait for an answer."""
WAITING_BYTES = 512 * 1024
"""Bytes of all waiting messages at most, as JSON: the memory is written in one piece."""
MOST_ANSWERED = 1000
"""Ids of answered messages that are kept, so that a message read twice is answered once."""
MOST_SKIPPED = 64
"""Numbers of pieces that were left out that are kept: more than the pieces whose files stay (42)."""
MOST_SETTLED = 20
"""Decisions on acts that are kept, so that a person who decides again is told which one counts."""

MOST_REACHED = 10
"""Reached goals that are kept, so that no mind does them twice."""
REACHED_TEXT = 200
"""Characters of a reached goal's statement that are kept."""
MOST_PROPOSED = 100
"""Times of proposals that are kept: as many as a day may have."""
MOST_VETOED = 100
"""Vetoed goals that are kept, so that a person who accepts one is told of the veto."""

CYCLE_KINDS: tuple[type[Event], ...] = (
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
    ActAsked,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    GoalReached,
    MessageSent,
    BudgetReserved,
    BudgetReached,
    AgentSlept,
    AgentWoke,
    MemoryConsolidated,
    *TEAM_KINDS,
)
"""The events that only the agent itself publishes."""

TOLD_KINDS: tuple[type[Event], ...] = (
    GoalSet,
    GoalAccepted,
    GoalDropped,
    MessageReceived,
    AnswerRated,
    ActApproved,
    ActDenied,
)
"""Events from people: the agent publishes them on request, other processes do while it does not run. `goal.set` comes
from the agent's own acts too."""

OWN_KINDS = CYCLE_KINDS + TOLD_KINDS
"""The events of the memory that are not measurements."""

MEASURED_KINDS: tuple[type[Event], ...] = (NeedsChanged, SenseMeasured, TaskProgressed)
"""Measurements of the agent, published by others: its needs and sensors, and (also by itself) its tasks."""


class _MemoryModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class ActiveGoal(_MemoryModel):
    """A goal and its best measure so far."""

    goal: Goal
    best: float | None = None
    """The best measure so far; None: not measured yet."""
    measure: float | None = None
    """The last measure; None: not measured yet."""
    piece: int | None = None
    """The number of the piece of material that it came with."""
    since: int = 0
    """The first cycle that it was active in."""
    children_reached: int = 0
    """How many goals that are a part of it were reached."""
    tried: bool = False
    """Whether its check failed after an act that changed the check's measure or ran the check itself. Of acts whose
    effect was not measured: after one that may have changed the workspace."""
    own: bool = Field(default=False, exclude_if=lambda own: not own)
    """Whether the agent set it itself."""
    accepted: bool = Field(default=False, exclude_if=lambda accepted: not accepted)
    """Whether a person accepted it, of one that the agent set itself."""

    @property
    def pays(self) -> bool:
        """Whether a person or the home set it, or a person accepted it."""
        return self.accepted or not self.own


class TaskEpisode(_MemoryModel):
    """A task that the agent works on, with the last published state."""

    tokens: int = 0
    """Output tokens of its actions, and of the reflections on them."""
    rate: float | None = None
    """The share of its tests that passed; None: not known."""
    phases: tuple[ActPhase, ...] = ()
    """The phases of its last acts that have one, ROLE_WINDOW at most; the task is in the last of them."""


class UnansweredMessage(_MemoryModel):
    """A message that is not answered yet."""

    id: str
    text: str
    size: int
    """Bytes that it takes in the stored memory."""
    sender: str = Field(default="user", exclude_if=lambda sender: sender == "user")
    session: str | None = Field(default=None, exclude_if=lambda session: session is None)
    """The conversation that it belongs to; None: it stands alone."""


class TokensSpent(_MemoryModel):
    """Tokens used within at most TICK seconds."""

    time: float
    """Seconds since the epoch, of the latest of them."""
    tokens: int


class ReachedGoal(_MemoryModel):
    """A goal that was reached."""

    cycle: int
    """The last cycle that had begun."""
    statement: str
    """Its beginning."""


class BroughtMaterial(_MemoryModel):
    """The last piece of material that came to the workspace."""

    piece: int
    """Its number."""
    cycle: int
    """The first cycle after it came."""
    over: int | None = Field(default=None, exclude_if=lambda over: over is None)
    """The next cycle when the last goal of a piece was reached or dropped; None: one of them is open."""
    skipped: tuple[int, ...] = Field(default=(), exclude_if=lambda skipped: not skipped)
    """The last numbers that were left out: their pieces never came."""


class SettledAct(_MemoryModel):
    """An act that waited for an approval, with the decision that counts."""

    action_id: str
    said: Literal["approved", "denied"]
    by: Literal["user", "timeout"]
    time: datetime


class AgentMemory(_MemoryModel):
    """An agent's memory. All of it but the goals is bounded."""

    next_cycle: int = 0
    thought: ThoughtFormed | None = None
    """The open cycle's thought; the next six fields belong to that cycle too."""
    grounded: ThoughtGrounded | None = None
    asked: ActAsked | None = Field(default=None, exclude_if=lambda asked: asked is None)
    """The act that an approval is wanted for."""
    answer: ActApproved | ActDenied | None = Field(default=None, exclude_if=lambda answer: answer is None)
    """The decision on it that counts."""
    decided: ActionDecided | None = None
    taken: ActionTaken | None = None
    step_told: bool = False
    """Whether the step of its task has been published."""
    goals: dict[str, ActiveGoal] = Field(default_factory=dict)
    episodes: dict[str, TaskEpisode] = Field(default_factory=dict)
    """By the goal's id, from its first event to the action that ended it."""
    known_goals: frozenset[str] = frozenset()
    """Every goal there ever was, but those of pieces: no goal is set twice."""
    proposed: tuple[datetime, ...] = Field(default=(), exclude_if=lambda times: not times)
    """When the agent set the last goals itself, MOST_PROPOSED at most, the newest last."""
    vetoed: tuple[str, ...] = Field(default=(), exclude_if=lambda ids: not ids)
    """Ids of the last goals that a person vetoed, MOST_VETOED at most, the newest last."""
    material: BroughtMaterial | None = Field(default=None, exclude_if=lambda brought: brought is None)
    """The last piece of material that came; None: none did."""
    waiting: tuple[UnansweredMessage, ...] = ()
    """Messages without an answer, the oldest first."""
    answered: tuple[str, ...] = ()
    """Ids of the last messages that were answered."""
    sessions: dict[str, tuple[AnsweredTurn, ...]] = Field(
        default_factory=dict, exclude_if=lambda sessions: not sessions
    )
    """The last turns of the last sessions; the session that was answered last is the last one."""
    needs: dict[str, float] = Field(default_factory=dict)
    senses: dict[str, SensorReading] = Field(default_factory=dict)
    """The last reading of each sensor; the most recent one is last."""
    recent: tuple[RecentAct, ...] = ()
    """The last acts, the oldest first."""
    room: int = Field(default=0, exclude_if=lambda room: not room)
    """Bytes that the last acts may take, as the prompts of the agent's mind have room for; at least the last few acts
    are kept."""
    reached: tuple[ReachedGoal, ...] = Field(default=(), exclude_if=lambda reached: not reached)
    """The goals that were reached last, MOST_REACHED at most, the newest last."""
    rewards: dict[int, ActReward] = Field(default_factory=dict)
    """The rewards of the last acts, by cycle, as far as they are known."""
    lessons: tuple[Lesson, ...] = ()
    """The best and the worst acts, the best first."""
    spent: tuple[TokensSpent, ...] = ()
    budget: BudgetLedger = Field(default=BudgetLedger(), exclude_if=lambda ledger: ledger == BudgetLedger())
    """What it used within the last day, for the limits of its budget."""
    work: WorkLedger = Field(default=WorkLedger(), exclude_if=lambda ledger: ledger == WorkLedger())
    """The paid changes that no goal has given back, and the files that it kept adding to."""
    sleep: SleepState = Field(default=SleepState(), exclude_if=lambda sleep: sleep == SleepState())
    """Its sleep, and its acts as far as they decide on that."""
    shadowed: int = Field(default=-1, exclude_if=lambda cycle: cycle < 0)
    """The last cycle whose act a candidate was asked for beside; -1: none was."""
    team: TeamState | None = Field(default=None, exclude_if=lambda team: team is None)
    """The team that it is; None: it is an agent alone."""
    policy: str | None = None
    settled: tuple[SettledAct, ...] = Field(default=(), exclude_if=lambda settled: not settled)
    """The last decisions on acts that waited for an approval, the newest last."""

    @property
    def next_piece(self) -> int:
        """The number of the next piece of material; those below came."""
        return 0 if self.material is None else self.material.piece + 1

    @property
    def phase(self) -> str:
        """The step of the cycle that comes next, as far as events tell: ground, decide, act (also while an approval is
        waited for), reflect; rest where no cycle is open."""
        if self.thought is None:
            return "rest"
        if self.decided is None and self.asked is None:
            return "ground" if self.grounded is None else "decide"
        return "act" if self.taken is None else "reflect"

    @property
    def open_work(self) -> int:
        """Goals that pay, and messages that wait."""
        return sum(active.pays for active in self.goals.values()) + len(self.waiting)

    @property
    def decisions(self) -> int:
        """Number of decisions made; an act that waits for an approval is one."""
        return self.next_cycle - (self.thought is not None and self.decided is None and self.asked is None)

    def recall(self) -> tuple[RecentOutcome, ...]:
        """The last actions, in the form that prompts use."""
        return tuple(
            RecentOutcome(
                act.cycle,
                act.action,
                act.status,
                act.output,
                error=act.error,
                result=act.result or act.output,
                raw=act.raw,
                reward=self.rewards.get(act.cycle),
                thought=act.thought,
            )
            for act in self.recent
        )

    def knows_message(self, id: str) -> bool:
        """Whether this message waits or was answered (of the last MOST_ANSWERED)."""
        return id in self.answered or self.is_waiting(id)

    def is_waiting(self, id: str) -> bool:
        """Whether this message waits for an answer."""
        return any(waiting.id == id for waiting in self.waiting)

    def answered_message(self, id: str | None) -> AnsweredMessage | None:
        """The waiting message of this id, as the act that answers it has it; None where no such message waits."""
        for one in self.waiting:
            if one.id == id:
                return answered_message(self.sessions, one.id, one.text, one.sender, one.session)
        return None

    def has_room(self, text: str) -> bool:
        """Whether another message of this text may wait."""
        size = sum(waiting.size for waiting in self.waiting) + _size(text)
        return len(self.waiting) < MOST_WAITING and size <= WAITING_BYTES

    def tokens_in_hour(self, now: float) -> int:
        """Tokens used in the hour before `now`, seconds since the epoch."""
        return sum(spent.tokens for spent in self._in_hour(now))

    def until_below(self, limit: int, now: float) -> float:
        """When, seconds since the epoch, the hour's tokens will be below `limit`; `now` when they are."""
        until, total = now, self.tokens_in_hour(now)
        for spent in sorted(self._in_hour(now), key=lambda spent: spent.time):
            if total < limit:
                break
            total -= spent.tokens
            until = spent.time + HOUR
        return until

    def _in_hour(self, now: float) -> list[TokensSpent]:
        # Entries in the future were written before the clock was set back: waiting for them could take for ever.
        return [spent for spent in self.spent if now - HOUR < spent.time <= now + TICK]


def remember(memory: AgentMemory, event: Event) -> AgentMemory:
    """The memory after `event`, with the team that the agent is. See `_remembered`."""
    after = _remembered(memory, event)
    is_of_team = isinstance(event, TEAM_KINDS) or (isinstance(event, ActionTaken) and event.team is not None)
    if is_of_team or (memory.team is not None and isinstance(event, TaskProgressed)):
        return after.model_copy(update={"team": followed(memory.team or TeamState(), event)})
    return after


def _remembered(memory: AgentMemory, event: Event) -> AgentMemory:
    """The memory after `event`. An event that was applied before changes nothing, however late it comes again; needs,
    sensors and policy take the last event's values, so their events must be read in order.

    A message beyond MOST_WAITING or WAITING_BYTES does not wait: it stays on the stream without an answer.
    """
    match event:
        case ThoughtFormed() if event.cycle is not None and _comes_next(memory, event.cycle):
            begun: dict[str, object] = {"next_cycle": event.cycle + 1, "thought": event}
            return memory.model_copy(update=NOTHING_OPEN | begun | _spending(memory, event, "think"))
        case ThoughtGrounded() if _open(memory, event) and memory.grounded is None:
            return memory.model_copy(update={"grounded": event})
        case ActAsked() if _open(memory, event) and memory.asked is None and memory.decided is None:
            return memory.model_copy(update={"asked": event})
        case ActApproved() | ActDenied() if _decides(memory, event):
            return memory.model_copy(update={"answer": event, "settled": _settled(memory, event)})
        case ActionDecided() if _open(memory, event) and memory.decided is None:
            return memory.model_copy(update={"decided": event} | _spending(memory, event, "decide"))
        case ActionTaken() if _open(memory, event) and memory.taken is None:
            return _after_act(memory, event)
        case CycleReflected() if _open(memory, event):
            closed = {"episodes": _reflected(memory, event)}
            return memory.model_copy(update=NOTHING_OPEN | closed | _spending(memory, event, "reflect"))
        case AdapterShadowed() if event.cycle is not None and event.cycle > memory.shadowed:
            return memory.model_copy(update={"shadowed": event.cycle} | _spending(memory, event, "decide"))
        case TaskProgressed() if memory.taken is not None and event.id == task_step_id(memory.taken.id):
            return memory.model_copy(update={"step_told": True})
        case TaskProgressed() if event.action_id is None and event.episode in memory.goals:
            stands = memory.episodes.get(event.episode, TaskEpisode()).model_copy(update={"rate": event.test_pass_rate})
            return memory.model_copy(update={"episodes": memory.episodes | {event.episode: stands}})
        case NeedsChanged():
            return memory.model_copy(update={"needs": dict(event.after)})
        case SenseMeasured():
            return memory.model_copy(update={"senses": heard(memory.senses, event)})
        case ExperienceRecorded():
            lessons = with_lesson(memory.lessons, event)
            rewards = with_reward(memory.rewards, event, len(memory.recent))
            return memory.model_copy(update={"rewards": rewards, "lessons": lessons})
        case BudgetReserved():
            return memory.model_copy(update={"budget": memory.budget.reserved(event)})
        case AgentSlept():
            return memory.model_copy(update={"sleep": memory.sleep.slept(event)})
        case AgentWoke():
            return memory.model_copy(update={"sleep": memory.sleep.woke(event)})
        case PolicySet():
            return memory.model_copy(update={"policy": event.policy})
        case MessageReceived() if not memory.knows_message(event.id) and memory.has_room(event.text):
            waiting = UnansweredMessage(
                id=event.id, text=event.text, size=_size(event.text), sender=event.sender, session=event.session
            )
            return memory.model_copy(update={"waiting": (*memory.waiting, waiting)})
        case MessageSent() if event.answers is not None and event.answers not in memory.answered:
            left = tuple(waiting for waiting in memory.waiting if waiting.id != event.answers)
            answered = (*memory.answered, event.answers)[-MOST_ANSWERED:]
            return memory.model_copy(
                update={"waiting": left, "answered": answered, "sessions": _conversed(memory, event)}
            )
        case AnswerRated():
            return memory.model_copy(update={"sessions": with_rating(memory.sessions, event)})
        case GoalSet(piece=int(piece)) if piece >= memory.next_piece:
            skipped = () if memory.material is None else memory.material.skipped
            skipped = (*skipped, *range(memory.next_piece, piece)[-MOST_SKIPPED:])[-MOST_SKIPPED:]
            came = BroughtMaterial(piece=piece, cycle=memory.next_cycle, skipped=skipped)
            return memory.model_copy(update={"goals": _with_goal(memory, event), "material": came})
        case GoalSet(piece=None) if event.goal.id not in memory.known_goals:
            known = memory.known_goals | {event.goal.id}
            return memory.model_copy(
                update={"goals": _with_goal(memory, event), "known_goals": known, "proposed": _proposed(memory, event)}
            )
        case GoalAccepted() if event.goal in memory.goals:
            accepted = memory.goals[event.goal].model_copy(update={"accepted": True})
            return memory.model_copy(update={"goals": memory.goals | {event.goal: accepted}})
        case GoalDropped(vetoed=True) if event.goal in memory.goals:
            vetoed = (*memory.vetoed, event.goal)[-MOST_VETOED:]
            return memory.model_copy(update=_goal_over(memory, event) | {"vetoed": vetoed})
        case GoalReached() if event.goal in memory.goals:
            return memory.model_copy(update=_goal_over(memory, event) | {"reached": _with_reached(memory, event)})
        case GoalDropped() if event.goal in memory.goals:
            return memory.model_copy(update=_goal_over(memory, event))
    return memory


def _conversed(memory: AgentMemory, answer: MessageSent) -> dict[str, tuple[AnsweredTurn, ...]]:
    """The sessions with the turn that the answer ends; unchanged where its message is of none, or does not wait."""
    said = next((waiting for waiting in memory.waiting if waiting.id == answer.answers), None)
    if said is None or said.session is None:
        return memory.sessions
    return with_turn(memory.sessions, said.session, said.id, said.text, answer.text)


def _with_goal(memory: AgentMemory, event: GoalSet) -> dict[str, ActiveGoal]:
    """The goals with the event's; one of the same id that is active stays."""
    active = ActiveGoal(goal=event.goal, piece=event.piece, since=memory.next_cycle, own=event.by == "agent")
    return memory.goals if event.goal.id in memory.goals else memory.goals | {event.goal.id: active}


def _proposed(memory: AgentMemory, event: GoalSet) -> tuple[datetime, ...]:
    """The times of proposals with the event's, if the agent set that goal itself."""
    return (*memory.proposed, event.time)[-MOST_PROPOSED:] if event.by == "agent" else memory.proposed


def _goal_over(memory: AgentMemory, event: GoalReached | GoalDropped) -> dict[str, object]:
    """The fields that change when a goal is reached or dropped: the goals, and whether all of pieces are over."""
    goals = _without_goal(memory, event)
    had, has = (any(active.piece is not None for active in some.values()) for some in (memory.goals, goals))
    if memory.material is None or not had or has:
        return {"goals": goals}
    return {"goals": goals, "material": memory.material.model_copy(update={"over": memory.next_cycle})}


def _without_goal(memory: AgentMemory, event: GoalReached | GoalDropped) -> dict[str, ActiveGoal]:
    """The goals without the event's; the goal that it was a part of counts it, if it was reached. A part that the agent
    set itself, and no person accepted, does not count for a goal that pays."""
    goals = {id: active for id, active in memory.goals.items() if id != event.goal}
    ended = memory.goals[event.goal]
    parent = goals.get(ended.goal.parent or "")
    if isinstance(event, GoalReached) and parent is not None and (ended.pays or not parent.pays):
        goals[parent.goal.id] = parent.model_copy(update={"children_reached": parent.children_reached + 1})
    return goals


def _with_reached(memory: AgentMemory, event: GoalReached) -> tuple[ReachedGoal, ...]:
    reached = ReachedGoal(cycle=max(0, memory.next_cycle - 1), statement=event.statement[:REACHED_TEXT])
    return (*memory.reached, reached)[-MOST_REACHED:]


def measured(memory: AgentMemory, goal: str, measure: float) -> AgentMemory:
    """The memory after a goal was measured without an action: what holds already earns no reward."""
    if (active := memory.goals.get(goal)) is None:
        return memory
    found = active.model_copy(update={"best": max(measure, active.best or 0.0), "measure": measure})
    return memory.model_copy(update={"goals": memory.goals | {goal: found}})


NOTHING_OPEN: dict[str, object] = {
    "thought": None,
    "grounded": None,
    "asked": None,
    "answer": None,
    "decided": None,
    "taken": None,
    "step_told": False,
}
"""The fields of a memory about a cycle, as they are once it is over."""


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def _comes_next(memory: AgentMemory, cycle: int) -> bool:
    """Whether a cycle may begin with this number; a number too far ahead is ignored."""
    return memory.next_cycle <= cycle < memory.next_cycle + MOST_LEAP or memory.next_cycle == 0


def _open(memory: AgentMemory, event: Event) -> bool:
    return memory.thought is not None and memory.thought.cycle == event.cycle


def _decides(memory: AgentMemory, event: ActApproved | ActDenied) -> bool:
    """Whether this decision counts: the first one on the act that waits; an approval within the act's time."""
    asked = memory.asked
    if asked is None or memory.decided is not None or memory.answer is not None or event.action_id != asked.action_id:
        return False
    return isinstance(event, ActDenied) or event.time <= asked.until


def _settled(memory: AgentMemory, event: ActApproved | ActDenied) -> tuple[SettledAct, ...]:
    said: Literal["approved", "denied"] = "approved" if isinstance(event, ActApproved) else "denied"
    settled = SettledAct(action_id=str(event.action_id), said=said, by=event.by, time=event.time)
    return (*memory.settled, settled)[-MOST_SETTLED:]


def _spending(
    memory: AgentMemory, event: ThoughtFormed | ActionDecided | CycleReflected | AdapterShadowed, purpose: Purpose
) -> dict[str, object]:
    """Add a reply's tokens to the present tick's entry (an entry per cycle would make an hour a long list), and settle
    what was reserved for it."""
    time, tokens = event.time.timestamp(), _tokens(event.usage)
    ledger = memory.budget if event.model else memory.budget.lapsed()  # a reflection that failed may have used it
    price = None if event.cost is None else event.cost.amount
    settled: dict[str, object] = {"budget": ledger.settled(purpose, time, tokens, price)}
    if not tokens:
        return settled
    spent = [tick for tick in memory.spent if tick.time > time - HOUR]
    if spent and spent[-1].time // TICK == time // TICK:
        tokens += spent.pop().tokens
    return {"spent": (*spent, TokensSpent(time=time, tokens=tokens))[-MOST_TICKS:]} | settled


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


def _after_act(memory: AgentMemory, event: ActionTaken) -> AgentMemory:
    recent = with_act(memory.recent, remembered_act(event, memory.room), memory.room)
    goals = dict(memory.goals)
    for check in event.goals:
        if check.outcome != "error" and (active := goals.get(check.goal)) is not None:
            goals[check.goal] = _checked(active, check, event)
    since = {id: active.since for id, active in memory.goals.items()}
    after = {
        "taken": event,
        "recent": recent,
        "goals": goals,
        "budget": _acted(memory, event),
        "work": memory.work.acted(event, since),
        "sleep": memory.sleep.acted(event),
    }
    return memory.model_copy(update=after | {"episodes": worked_on(memory, event)})


def _acted(memory: AgentMemory, act: ActionTaken) -> BudgetLedger:
    """The budget's ledger after an act; one that called no tool, or was blocked, uses none of it."""
    if act.action.kind != "TOOL" or not act.action.valid or act.outcome.status in ("none", "blocked"):
        return memory.budget
    return memory.budget.acted(act.time.timestamp(), irreversible=is_irreversible(act.action))


def is_irreversible(action: Action) -> bool:
    """Whether nothing in Conch can take this act back: its tool declares that it changes the world, or nothing."""
    return effect_of(action) in ("world", None)


def _checked(active: ActiveGoal, check: GoalCheck, act: ActionTaken) -> ActiveGoal:
    """The goal after its check. The best measure rises with progress alone: steps too small to be progress add up."""
    best = max(check.best, active.best or 0.0)
    if check.outcome in ("partial", "achieved"):
        best = max(best, check.measure)
    failed = active.tried or (check.outcome != "achieved" and _tried(active, check, act))
    if (best, check.measure, failed) == (active.best, active.measure, active.tried):
        return active
    return active.model_copy(update={"best": best, "measure": check.measure, "tried": failed})


def _tried(active: ActiveGoal, check: GoalCheck, act: ActionTaken) -> bool:
    if act.effect is None:
        return touched(act.action, act.outcome.status)
    before = check.best if active.measure is None else active.measure
    return check.measure != before or any(run.ran and run.goal == check.goal for run in act.effect.checks)


def worked_on(memory: AgentMemory, act: ActionTaken) -> dict[str, TaskEpisode]:
    """The episodes after an act that the memory has not taken in yet. Pure."""
    if act.episode is None:
        return memory.episodes
    before = memory.episodes.get(act.episode, TaskEpisode())
    rates = (check.measure for check in act.goals if check.goal == act.episode and check.outcome != "error")
    phase = phase_of(act)
    after = TaskEpisode(
        tokens=before.tokens + act.usage.output_tokens,
        rate=next(rates, before.rate),
        phases=before.phases if phase is None else (*before.phases, phase)[-ROLE_WINDOW:],
    )
    return memory.episodes | {act.episode: after}


def _reflected(memory: AgentMemory, event: CycleReflected) -> dict[str, TaskEpisode]:
    """The episodes once the cycle is over: the one that its action ended is dropped."""
    act = memory.taken
    if act is None or act.episode not in memory.episodes:
        return memory.episodes
    worked_on = memory.episodes[act.episode]
    others = {id: episode for id, episode in memory.episodes.items() if id != act.episode}
    if act.terminal:
        return others
    tokens = worked_on.tokens + event.usage.output_tokens
    return others | {act.episode: worked_on.model_copy(update={"tokens": tokens})}

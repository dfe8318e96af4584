"""What an agent knows of itself: a pure fold over its own facts, so that a crash forgets nothing."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from conch.minds.protocol import Recent
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    Goal,
    GoalDropped,
    GoalReached,
    GoalSet,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
)

RECENT = 10
RECENT_OUTPUT = 2000
"""Characters of an output that the agent remembers."""
HOUR = 3600.0

OWN_KINDS: tuple[type[Event], ...] = (
    ThoughtFormed,
    ThoughtGrounded,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    GoalSet,
    GoalReached,
    GoalDropped,
    MessageReceived,
    MessageSent,
    PolicySet,
)
"""The facts that the agent itself publishes, or that are told it: all of its memory but the needs."""


class _State(BaseModel):
    model_config = ConfigDict(frozen=True)


class ActiveGoal(_State):
    """A goal and how far its check has come."""

    goal: Goal
    best: float | None = None
    """The best measure so far; None: not measured yet."""
    tried: bool = False
    """Whether an act of the agent has been checked against it without achieving it."""


class Remembered(_State):
    """One of the last acts."""

    cycle: int
    action: Action
    status: str
    output: str


class Waiting(_State):
    """A message that is not answered yet."""

    id: str
    text: str


class Spent(_State):
    """Tokens of one cycle."""

    time: float
    """Seconds since the epoch."""
    tokens: int


class Memory(_State):
    """An agent's memory of itself."""

    next_cycle: int = 0
    thought: ThoughtFormed | None = None
    """Of the cycle that is open, as are the next three."""
    grounded: ThoughtGrounded | None = None
    decided: ActionDecided | None = None
    taken: ActionTaken | None = None
    goals: dict[str, ActiveGoal] = Field(default_factory=dict)
    known_goals: frozenset[str] = frozenset()
    """Every goal there ever was: none is set twice."""
    waiting: tuple[Waiting, ...] = ()
    needs: dict[str, float] = Field(default_factory=dict)
    needs_cycle: int = -1
    recent: tuple[Remembered, ...] = ()
    spent: tuple[Spent, ...] = ()
    policy: str | None = None

    @property
    def decisions(self) -> int:
        """How many times it was decided."""
        return self.next_cycle - (self.thought is not None and self.decided is None)

    def recall(self) -> tuple[Recent, ...]:
        """The last acts as a mind is told them."""
        return tuple(Recent(act.cycle, act.action, act.status, act.output) for act in self.recent)

    def tokens_in_hour(self, now: float) -> int:
        """Tokens used in the hour before `now`."""
        return sum(spent.tokens for spent in self.spent if spent.time > now - HOUR)

    def until_below(self, limit: int, now: float) -> float:
        """When, seconds since the epoch, the hour's tokens will be below `limit`; `now` when they are."""
        total = self.tokens_in_hour(now)
        for spent in self.spent:
            if total < limit:
                break
            if spent.time > now - HOUR:
                total -= spent.tokens
                now_below = spent.time + HOUR
                if total < limit:
                    return now_below
        return now


def remember(memory: Memory, event: Event) -> Memory:
    """The memory after `event`. The same event twice changes nothing."""
    match event:
        case ThoughtFormed() if event.cycle is not None and event.cycle >= memory.next_cycle:
            spent = (*memory.spent[-500:], _spent(event, event.usage.input_tokens + event.usage.output_tokens))
            return memory.model_copy(
                update={"next_cycle": event.cycle + 1, "thought": event, "spent": spent} | _nothing_after_thought()
            )
        case ThoughtGrounded() if _open(memory, event):
            return memory.model_copy(update={"grounded": event})
        case ActionDecided() if _open(memory, event) and memory.decided is None:
            tokens = event.usage.input_tokens + event.usage.output_tokens
            return memory.model_copy(update={"decided": event, "spent": (*memory.spent, _spent(event, tokens))})
        case ActionTaken() if _open(memory, event) and memory.taken is None:
            return _after_act(memory, event)
        case CycleReflected() if _open(memory, event):
            return memory.model_copy(update={"thought": None} | _nothing_after_thought())
        case NeedsChanged() if (event.cycle if event.cycle is not None else memory.needs_cycle) >= memory.needs_cycle:
            cycle = event.cycle if event.cycle is not None else memory.needs_cycle
            return memory.model_copy(update={"needs": dict(event.after), "needs_cycle": cycle})
        case PolicySet():
            return memory.model_copy(update={"policy": event.policy})
        case MessageReceived() if all(waiting.id != event.id for waiting in memory.waiting):
            return memory.model_copy(update={"waiting": (*memory.waiting, Waiting(id=event.id, text=event.text))})
        case MessageSent():
            left = tuple(waiting for waiting in memory.waiting if waiting.id != event.answers)
            return memory.model_copy(update={"waiting": left})
        case GoalSet() if event.goal.id not in memory.known_goals:
            goals = memory.goals | {event.goal.id: ActiveGoal(goal=event.goal)}
            return memory.model_copy(update={"goals": goals, "known_goals": memory.known_goals | {event.goal.id}})
        case GoalReached() | GoalDropped():
            goals = {id: goal for id, goal in memory.goals.items() if id != event.goal}
            return memory.model_copy(update={"goals": goals})
    return memory


def measured(memory: Memory, goal: str, measure: float) -> Memory:
    """The memory after a goal was first measured, before any act of the agent counted for it."""
    if (active := memory.goals.get(goal)) is None:
        return memory
    return memory.model_copy(update={"goals": memory.goals | {goal: active.model_copy(update={"best": measure})}})


def _open(memory: Memory, event: Event) -> bool:
    return memory.thought is not None and memory.thought.cycle == event.cycle


def _nothing_after_thought() -> dict[str, None]:
    return {"grounded": None, "decided": None, "taken": None}


def _spent(event: Event, tokens: int) -> Spent:
    return Spent(time=event.time.timestamp(), tokens=tokens)


def _after_act(memory: Memory, event: ActionTaken) -> Memory:
    assert event.cycle is not None
    act = Remembered(
        cycle=event.cycle,
        action=event.action,
        status=event.outcome.status,
        output=event.outcome.output.text[:RECENT_OUTPUT],
    )
    goals = dict(memory.goals)
    for check in event.goals:
        if check.outcome != "error" and (active := goals.get(check.goal)) is not None:
            best = max(check.measure, active.best if active.best is not None else check.best)
            tried = active.tried or check.outcome != "achieved"
            goals[check.goal] = active.model_copy(update={"best": best, "tried": tried})
    return memory.model_copy(update={"taken": event, "recent": (*memory.recent, act)[-RECENT:], "goals": goals})

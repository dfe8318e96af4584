"""Bounds on the goals that an agent sets itself, and the goal that an act proposed. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from conch.config import OwnGoalSettings
from conch.cycle.inbox import GOAL_BYTES, MOST_GOALS
from conch.cycle.state.memory import AgentMemory
from conch.tools import goal_of_call
from conch_schemas import ActionTaken, Goal

DAY = timedelta(days=1)
"""Over which proposals are counted."""


def has_room(memory: AgentMemory, settings: OwnGoalSettings, now: datetime) -> bool:
    """Whether the agent may set a goal itself now, as far as their numbers go."""
    return _too_many(memory, settings, now) is None


def goal_objection(memory: AgentMemory, settings: OwnGoalSettings, goal: Goal, now: datetime) -> str | None:
    """Why the agent may not set this goal itself now, in one sentence; None: it may."""
    if goal.id in memory.vetoed:
        return "a person vetoed it"
    if goal.id in memory.known_goals:
        return "it was set before"
    if goal.parent is not None and goal.parent not in memory.goals:
        return f"there is no active goal {goal.parent[:60]!r} that it could be a part of"
    # Of a hidden check the refusal would tell that it was guessed.
    told = {one.goal.id: one.goal.told_check for one in memory.goals.values()}
    if (same := next((id for id, check in told.items() if check == goal.check), None)) is not None:
        return f"the goal {same} has this check"
    if (size := len(goal.model_dump_json())) > GOAL_BYTES:
        return f"it has {size} bytes with its check, at most {GOAL_BYTES} are allowed"
    return _too_many(memory, settings, now)


def proposed_goal(act: ActionTaken) -> Goal | None:
    """The goal that the act proposed, under the id that its outcome names; None where it proposed none."""
    if act.outcome.proposed is None:
        return None
    goal = goal_of_call(act.action.args, act.time)
    return goal.model_copy(update={"id": act.outcome.proposed})  # a secret in the arguments was masked since


def _too_many(memory: AgentMemory, settings: OwnGoalSettings, now: datetime) -> str | None:
    own = sum(active.own for active in memory.goals.values())
    if own >= settings.open:
        return f"{own} goals of your own are active, as many as own_goals.open allows"
    if len(memory.goals) >= MOST_GOALS:
        return f"{MOST_GOALS} goals are active already"
    lately = sum(now - DAY < time <= now for time in memory.proposed)
    if lately >= settings.per_day:
        return f"you set {lately} goals within 24 hours, as many as own_goals.per_day allows"
    return None

"""Task episodes: a goal that a test suite decides is a task, and each act on the way to it is a step of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conch.cycle.state.memory import AgentMemory
from conch_schemas import ActionTaken, Goal, GoalCheck, TestsCheck


def episode_of(memory: AgentMemory, checks: Sequence[GoalCheck]) -> tuple[str | None, bool]:
    """(the task that an act belongs to, whether the act ends it); an act belongs to one at most.

    To the task that it achieved; else to one that was dropped since its last act, which it ends; else to the active
    task of the highest priority, of equals the one set first.
    """
    tasks = sorted((a.goal for a in memory.goals.values() if is_task(a.goal)), key=lambda goal: -goal.priority)
    achieved = {check.goal for check in checks if check.outcome == "achieved"}
    for goal in tasks:
        if goal.id in achieved:
            return goal.id, True
    for id in memory.episodes:
        if id not in memory.goals:
            return id, True
    return (tasks[0].id, False) if tasks else (None, False)


def is_task(goal: Goal) -> bool:
    """Whether steps towards it are told."""
    return isinstance(goal.check, TestsCheck)


def progressed(memory: AgentMemory, act: ActionTaken) -> dict[str, Any]:
    """The data of `task.progressed` after an act of a task that the memory holds. A check that could not be run says
    no rate."""
    assert act.episode is not None
    told = (check for check in act.goals if check.goal == act.episode and check.outcome != "error")
    return {
        "episode": act.episode,
        "test_pass_rate": next((check.measure for check in told), None),
        "tokens_used": memory.episodes[act.episode].tokens,
        "terminal": act.terminal,
    }

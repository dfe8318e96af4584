"""Task episodes: a goal checked by a test suite is a task, and each action towards it is a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from conch.cycle.state.memory import AgentMemory
from conch_schemas import ActionTaken, Goal, GoalCheck, TestsCheck


def episode_of(memory: AgentMemory, checks: Sequence[GoalCheck]) -> tuple[str | None, bool]:
    """(the task that an action belongs to, whether the action ends it); an action belongs to at most one.

    It belongs to the task that it achieved; else to one that was dropped since its last action, which it ends; else to
    the active task of the highest priority, the one set first among equals.
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
    """Whether steps towards this goal are published."""
    return isinstance(goal.check, TestsCheck)


class EpisodeStep(TypedDict):
    """The data of `task.progressed`."""

    episode: str
    test_pass_rate: float | None
    """0..1; None: the check could not be run."""
    tokens_used: int
    """Since the task began."""
    terminal: bool | None


def progressed(memory: AgentMemory, act: ActionTaken) -> EpisodeStep:
    """The data of `task.progressed` after an action of a task in the memory; no rate if its check could not be run."""
    assert act.episode is not None
    told = (check for check in act.goals if check.goal == act.episode and check.outcome != "error")
    return {
        "episode": act.episode,
        "test_pass_rate": next((check.measure for check in told), None),
        "tokens_used": memory.episodes[act.episode].tokens,
        "terminal": act.terminal,
    }

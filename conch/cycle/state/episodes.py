"""Task episodes: a goal checked by a test suite is a task, and each action towards it is a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from conch.cycle.effects.phases import role_shares
from conch.cycle.state.memory import ActiveGoal, AgentMemory, TaskEpisode
from conch_schemas import ActionTaken, GoalCheck, TestsCheck


def episode_of(memory: AgentMemory, checks: Sequence[GoalCheck]) -> tuple[str | None, bool]:
    """(the task that an action belongs to, whether the action ends it); an action belongs to at most one.

    It belongs to the task that it achieved; else to one that was dropped since its last action, which it ends; else to
    the active task of the highest priority, the one set first among equals.
    """
    tasks = sorted((a.goal for a in memory.goals.values() if is_task(a)), key=lambda goal: -goal.priority)
    achieved = {check.goal for check in checks if check.outcome == "achieved"}
    for goal in tasks:
        if goal.id in achieved:
            return goal.id, True
    for id in memory.episodes:
        if id not in memory.goals:
            return id, True
    return (tasks[0].id, False) if tasks else (None, False)


def is_task(active: ActiveGoal) -> bool:
    """Whether steps towards this goal are published: tests decide it, and a person or the home stands behind it."""
    return isinstance(active.goal.check, TestsCheck) and active.pays


class EpisodeStep(TypedDict):
    """The data of `task.progressed`."""

    episode: str
    phase: str | None
    """planning, coding, testing, critique or done; None: no act of the task had a phase."""
    roles: dict[str, float] | None
    """Shares of planner, coder_runner and critic, 0..1; None: no act of the task had a phase."""
    test_pass_rate: float | None
    """0..1; None: the check could not be run."""
    tokens_used: int
    """Output tokens since the task began."""
    terminal: bool


def progressed(memory: AgentMemory, act: ActionTaken) -> EpisodeStep:
    """The data of `task.progressed` after an action of a task in the memory; no rate if its check could not be run.

    A task that the action achieved is done; one that was dropped stays in its phase.
    """
    assert act.episode is not None
    checks = [check for check in act.goals if check.goal == act.episode and check.outcome != "error"]
    found = standing(act.episode, memory.episodes[act.episode], next((check.measure for check in checks), None))
    done = any(check.outcome == "achieved" for check in checks)
    return {**found, "phase": "done" if done else found["phase"], "terminal": act.terminal}


def standing(episode: str, known: TaskEpisode, rate: float | None) -> EpisodeStep:
    """The data of `task.progressed` for a task that no action has moved, with its test rate."""
    return {
        "episode": episode,
        "phase": known.phases[-1] if known.phases else None,
        "roles": role_shares(known.phases),
        "test_pass_rate": rate,
        "tokens_used": known.tokens,
        "terminal": False,
    }

"""Task episodes: a goal checked by a test suite is a task, and each action towards it is a step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conch.cycle.effects.phases import role_shares
from conch.cycle.state.memory import ActiveGoal, AgentMemory, TaskEpisode
from conch_schemas import ActionTaken, GoalCheck, TaskStep, TestsCheck


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


def step_of(episodes: Mapping[str, TaskEpisode], act: ActionTaken) -> TaskStep | None:
    """What an act is as a step of its task; None for one of no task. `episodes`: as they are after the act.

    No rate if its check could not be run. A task that the action achieved is done; one that was dropped stays in its
    phase.
    """
    if act.episode is None:
        return None
    checks = [check for check in act.goals if check.goal == act.episode and check.outcome != "error"]
    rate = next((check.measure for check in checks), None)
    found = task_step(episodes[act.episode], rate)
    done = any(check.outcome == "achieved" for check in checks)
    return found.model_copy(update={"phase": "done"}) if done else found


def task_step(known: TaskEpisode, rate: float | None) -> TaskStep:
    """How a task stands, with its test rate."""
    return TaskStep(
        phase=known.phases[-1] if known.phases else None,
        roles=role_shares(known.phases),
        test_pass_rate=rate,
        tokens_used=known.tokens,
    )

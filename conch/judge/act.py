"""An act as the trajectory that a judge reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

from conch.rules import Message, Trajectory
from conch_schemas import ActionTaken


def trajectory_of(action: ActionTaken, prompt: Sequence[Message] = ()) -> Trajectory:
    """The mind's prompt, its reply, and the outcome. The same act and prompt give the same trajectory.

    `prompt`: the messages of its `action.decided`; without them the state is described from the act's own fields. It
    holds no time, so that the same act in the same state is the same trajectory.
    """
    given = tuple(prompt) or (Message("user", _state(action)),)
    return Trajectory((*given, Message("assistant", action.raw), Message("tool", _outcome(action))))


def _state(action: ActionTaken) -> str:
    return _told(
        {
            "thought": action.thought,
            "needs (0 starved, 1 satisfied)": action.needs,
            "memory": action.memory,
            "goals": [check.statement for check in action.goals],
        }
    )


def _outcome(action: ActionTaken) -> str:
    """The outcome as JSON, so that no output can pass as the status beside it."""
    act, outcome = action.action, action.outcome
    goals = [
        {"goal": check.statement, "outcome": check.outcome, "measure": check.measure, "detail": check.detail}
        for check in action.goals
    ]
    return _told(
        {
            "action": act.skill,
            "invalid because": act.reason,
            "status": outcome.status,
            "error": outcome.error,
            "exit code": outcome.exit_code,
            "output": outcome.output.text,
            "goals": goals,
        }
    )


def _told(found: dict[str, object]) -> str:
    said = {name: value for name, value in found.items() if value not in (None, "", [], (), {})}
    return json.dumps(said, ensure_ascii=False)

"""Goals, as `conch goal list --json` and the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conch_schemas import Check, CommandCheck, FileCheck, TestsCheck

if TYPE_CHECKING:
    from conch.cycle.state.memory import ActiveGoal


def goals_shown(goals: Sequence[ActiveGoal]) -> dict[str, Any]:
    """`conch.v1.goals`: each active goal, the best that its check has measured, and how often it was tried."""
    rows = [active.goal.model_dump(mode="json") | {"best": active.best, "tried": active.tried} for active in goals]
    return {"schema": "conch.v1.goals", "goals": rows}


def check_words(check: Check) -> str:
    """A check in a few words."""
    match check:
        case CommandCheck():
            return f"{check.command} exits with {check.exit_status}"
        case FileCheck():
            what = "is as given" if check.equals is not None else f"has {', '.join(check.contains)}"
            return f"{check.path} {what if check.equals is not None or check.contains else 'exists'}"
        case TestsCheck():
            return f"tests pass: {check.command}"

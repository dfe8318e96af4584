"""Act: do what was decided, then let the goals' own checks say what it was worth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conch.cycle.memory import ActiveGoal
from conch.text import cut
from conch.tools import Sandbox, Toolbox, ToolContext, run_check
from conch_schemas import Action, GoalCheck, GoalOutcome, Outcome, OutcomeStatus

READ_ONLY = frozenset(
    {
        "filesystem.read",
        "filesystem.list",
        "filesystem.exists",
        "filesystem.info",
        "filesystem.grep",
        "filesystem.glob",
        "git.status",
        "git.log",
        "git.diff",
        "notes.remember",
        "notes.recall",
        "reply",
    }
)
"""Skills that leave the workspace as it is: no check can come out otherwise after them."""


@dataclass(frozen=True)
class Deed:
    """What acting brought."""

    outcome: Outcome
    goals: tuple[GoalCheck, ...]


async def act(
    action: Action, guard: str | None, *, toolbox: Toolbox, context: ToolContext, goals: Iterable[ActiveGoal]
) -> Deed:
    """Do `action` once and check the goals. Whatever the tool does, an outcome comes back. Cancelled, the tool dies."""
    if guard is not None:
        outcome = nothing("blocked", guard)
    elif action.valid and action.kind == "TOOL":
        outcome = await toolbox.run(action, context)
    else:
        outcome = nothing("none")
    touched = outcome.status not in ("none", "blocked") and action.skill not in READ_ONLY
    return Deed(outcome, await check_goals(goals, context, touched=touched))


def nothing(status: OutcomeStatus, error: str | None = None) -> Outcome:
    """The outcome of what was not done."""
    return Outcome(status=status, output=cut(""), error=error)


async def check_goals(goals: Iterable[ActiveGoal], context: ToolContext, *, touched: bool) -> tuple[GoalCheck, ...]:
    """Every active goal's check, side by side; where nothing was touched, the last measure stands."""
    return tuple(await asyncio.gather(*(_checked(goal, context, touched) for goal in goals)))


async def _checked(active: ActiveGoal, context: ToolContext, touched: bool) -> GoalCheck:
    goal, best = active.goal, active.best if active.best is not None else 0.0
    if not touched and active.best is not None:
        return GoalCheck(
            goal=goal.id, statement=goal.statement, outcome="neutral", measure=best, best=best, detail="untouched"
        )
    measure, achieved, detail, error = await measure_goal(active, context.workspace, context.sandbox, context)
    outcome: GoalOutcome = "error" if error else "achieved" if achieved else "partial" if measure > best else "neutral"
    return GoalCheck(
        goal=goal.id,
        statement=goal.statement,
        outcome=outcome,
        measure=measure,
        best=best,
        failed_before=active.tried,
        detail=(error or detail)[:300],
    )


async def measure_goal(
    active: ActiveGoal, workspace: Path, sandbox: Sandbox, context: ToolContext
) -> tuple[float, bool, str, str | None]:
    """(measure 0..1, achieved, a line of detail, why the check could not be run)."""
    result = await run_check(active.goal.check, workspace, sandbox, context.settings.timeout)
    return result.measure, result.achieved, result.detail, result.error

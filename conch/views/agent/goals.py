"""The views of goals, for `conch goal list --json` and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import Check, CommandCheck, FileCheck, Goal, TestsCheck

if TYPE_CHECKING:
    from conch.cycle.state.memory import ActiveGoal


class GoalRow(Goal):
    """An active goal of an agent."""

    best: float | None
    """The best that its check has measured, 0..1; None: it was not measured yet."""
    tried: bool
    """Whether the agent has acted on it."""
    own: bool
    """Whether the agent set it itself."""
    accepted: bool
    """Whether a person or the home set it, or a person accepted it: then it pays."""


class Goals(View):
    """All active goals, as `conch goal list --json` prints them."""

    schema_: Literal["conch.v1.goals"] = Field(default="conch.v1.goals", alias="schema")
    goals: tuple[GoalRow, ...]


def goals_shown(goals: Sequence[ActiveGoal]) -> Goals:
    """Each active goal with the best that its check has measured."""
    return Goals(goals=tuple(map(_row, goals)))


def _row(active: ActiveGoal) -> GoalRow:
    return GoalRow(**vars(active.goal), best=active.best, tried=active.tried, own=active.own, accepted=active.pays)


def check_words(check: Check, *, hidden: bool = False) -> str:
    """A check as a short text, for people; `hidden: ` before one that the mind is not told."""
    if hidden:
        return f"hidden: {check_words(check)}"
    match check:
        case CommandCheck():
            return f"{check.command} exits with {check.exit_status}"
        case FileCheck():
            what = "is as given" if check.equals is not None else f"has {', '.join(check.contains)}"
            return f"{check.path} {what if check.equals is not None or check.contains else 'exists'}"
        case TestsCheck():
            return f"tests pass: {check.command}"

"""The built-in rules of the scorer `reward`: format, execution, goal. Pure functions of values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from conch.config import RewardSettings
from conch.folds import tool_result
from conch_schemas import BUILTIN_SCORER, ActionTaken, GoalCheck, Score

VERSION: Final = "2"
"""Version of these rules: it changes with any number below. 1: without the measured effect of an act."""

FORMAT_RANGE: Final = (-1.0, 0.5)
EXECUTION_RANGE: Final = (-0.3, 1.0)
GOAL_RANGE: Final = (0.0, 2.0)

_GOAL_REWARDS: Final = {"achieved": 2.0, "partial": 1.0}
_PLAIN_WORDS: Final = {"DO_NOTHING": "doing nothing", "REFLECT": "reflecting"}


def format_reward(valid: bool) -> float:
    """0.5 for a reply that follows the grammar and the tools' signatures, −1.0 for any other."""
    return 0.5 if valid else -1.0


def execution_reward(kind: str, valid: bool, success: bool, idle: bool = False) -> float:
    """In [−0.3, 1]: a tool 1.0, idle 0.2, failed −0.3; a valid DO_NOTHING or REFLECT 0.2; an invalid reply 0.0.

    `success` is the outcome's structured status, never inferred from the output. `idle`: the call was measured and had
    no effect, which earns no more than a rest.
    """
    if not valid or kind == "INVALID":
        return 0.0
    if kind == "TOOL" and not idle:
        return 1.0 if success else -0.3
    return 0.2


def goal_reward(outcome: str) -> float:
    """2.0 achieved, 1.0 partial progress, 0.0 for every other outcome of a goal's own check."""
    return _GOAL_REWARDS.get(outcome, 0.0)


def builtin_scores(action: ActionTaken, settings: RewardSettings) -> tuple[Score, Score, Score]:
    """format, execution and goal of one act, each with an explanation. Never raises; the same act, the same scores."""
    return _format(action, abstain=settings.abstain_when_constrained), _execution(action), _goal(action.goals)


@lru_cache(maxsize=1024)
def scored(component: str, value: float, limits: tuple[float, float], why: str) -> Score:
    """A score of the scorer `reward`, cached: most acts get one of a few verdicts."""
    return Score(
        component=component,
        value=value,
        range=limits,
        status="scored",
        explanation=why,
        scorer=BUILTIN_SCORER,
        version=VERSION,
    )


@lru_cache(maxsize=64)
def _not_applicable(component: str, limits: tuple[float, float], why: str) -> Score:
    return Score(
        component=component,
        range=limits,
        status="not_applicable",
        explanation=why,
        scorer=BUILTIN_SCORER,
        version=VERSION,
    )


def _format(action: ActionTaken, *, abstain: bool) -> Score:
    if action.constrained and abstain:
        return _not_applicable("format", FORMAT_RANGE, "A grammar constrained the reply, so its form says nothing.")
    valid = action.action.valid
    why = "The reply is valid." if valid else f"The reply is not valid: {action.action.reason or 'no reason given'}."
    return scored("format", format_reward(valid), FORMAT_RANGE, why)


def _execution(action: ActionTaken) -> Score:
    act, status = action.action, action.outcome.status
    if status == "unknown":
        why = "A crash fell between the intent and its outcome, so nobody knows how it came out."
        return _not_applicable("execution", EXECUTION_RANGE, why)
    result = tool_result(action)
    value = execution_reward(act.kind, act.valid, result == "success", result == "idle")
    if not act.valid or act.kind == "INVALID":
        why = "The reply is not valid, so nothing was executed."
    elif act.kind == "TOOL":
        why = f"The tool {act.skill} ended with status {status}{_measured(action)}."
    else:
        why = f"The agent chose {_PLAIN_WORDS[act.kind]}."
    return scored("execution", value, EXECUTION_RANGE, why)


def _measured(action: ActionTaken) -> str:
    """What the measured effect adds to the status, as the end of a sentence; empty where it adds nothing."""
    effect = action.effect
    if effect is None or action.outcome.status == "blocked":
        return ""
    ran = [check for check in effect.checks if check.ran]
    if any(check.changed_since for check in ran):
        return "; it ran a check of the changed workspace, which counts as a success whatever its verdict"
    if tool_result(action) != "idle":
        return ""
    return "; it ran a check of an unchanged workspace: idle" if ran else " and had no effect: idle"


def _goal(checks: Sequence[GoalCheck]) -> Score:
    """With several active goals the best outcome counts. A check that could not be run is ignored, and so is a goal
    that the agent set itself until a person has accepted it."""
    if not checks:
        return _not_applicable("goal", GOAL_RANGE, "No goal is active.")
    checks = [check for check in checks if check.accepted]
    if not checks:
        return _not_applicable("goal", GOAL_RANGE, "No goal that a person set or accepted is active.")
    told = [check for check in checks if check.outcome != "error"]
    if not told:
        return Score(
            component="goal",
            range=GOAL_RANGE,
            status="error",
            explanation=f"No goal's check could be run: {checks[0].detail or checks[0].statement}.",
            scorer=BUILTIN_SCORER,
            version=VERSION,
        )
    best = max(told, key=lambda check: goal_reward(check.outcome))
    why = f"The goal “{best.statement}” came out {best.outcome}: {best.measure:g} of 1, best before {best.best:g}."
    return scored("goal", goal_reward(best.outcome), GOAL_RANGE, why)

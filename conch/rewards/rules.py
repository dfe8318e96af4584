"""The built-in rules of the scorer `reward`: format, execution, goal. Pure functions of values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from conch.config import ExecutionValues, FormatValues, GoalValues, RewardSettings
from conch.folds import PAID_APPENDS, moves_goal, tool_result, work_of
from conch_schemas import BUILTIN_SCORER, ActionTaken, Decoding, GoalCheck, GoalWork, Score

VERSION: Final = "5"
"""Version of these rules; their values are settings. 1: without the measured effect of an act. 2: an act whose outcome
is unknown had no goal and kept every principle. 3: an invalid reply kept every principle. 4: looking paid like work,
and a rest the same whether a goal was open or not; this still holds for acts without `effect.work`."""

OUTCOME_UNKNOWN: Final = "A crash fell between the intent and its outcome, so nobody knows how it came out."
"""Why nothing of an act whose outcome is unknown is scored, its form excepted."""

INVALID_REPLY: Final = "The reply is not valid, so nothing was executed."
"""Why the act of an invalid reply earns nothing by its execution, and is judged by no principle."""

_FORMAT: Final = FormatValues()
_EXECUTION: Final = ExecutionValues()
_GOAL: Final = GoalValues()
_PLAIN_WORDS: Final = {"DO_NOTHING": "doing nothing", "REFLECT": "reflecting"}
_CONSTRAINTS: Final = {"grammar": "A grammar", "schema": "A JSON schema", "tools": "A required call of a tool"}


def format_reward(valid: bool, values: FormatValues = _FORMAT) -> float:
    """By default 0.5 for a reply that follows the grammar and the tools' signatures, −1.0 for any other."""
    return values.valid if valid else values.invalid


def execution_reward(
    kind: str, valid: bool, success: bool, idle: bool = False, values: ExecutionValues = _EXECUTION
) -> float:
    """By default a tool 1.0, idle 0.2, failed −0.3; a valid DO_NOTHING or REFLECT 0.2; an invalid reply 0.0.

    `success` is the outcome's structured status, never inferred from the output. `idle`: the call was measured and had
    no effect, which earns no more than a rest.
    """
    if not valid or kind == "INVALID":
        return values.invalid
    if kind == "TOOL" and not idle:
        return values.success if success else values.failed
    return values.idle


def worked_execution(action: ActionTaken, work: GoalWork, values: ExecutionValues = _EXECUTION) -> float:
    """*execution* of a valid act whose agent counted its goals: by default 1.0 for a tool that moved a goal, or whose
    change or test run is paid; −0.8 for any other call; a rest or a reflection 0.2, and −0.2 while a goal is open.

    A call that failed earns the lesser of `failed` and `fruitless`; a blocked one `failed`, as the gate does the rest.
    """
    if action.action.kind != "TOOL":
        return values.resting if work.open else values.idle
    result = tool_result(action)
    if result == "success":
        return values.success
    if action.outcome.status == "blocked":
        return values.failed
    return min(values.failed, values.fruitless) if result == "failure" else values.fruitless


def goal_reward(outcome: str, values: GoalValues = _GOAL) -> float:
    """By default 2.0 achieved, 1.0 partial progress, 0.0 for every other outcome of a goal's own check."""
    return {"achieved": values.achieved, "partial": values.partial}.get(outcome, values.neutral)


def builtin_scores(action: ActionTaken, settings: RewardSettings) -> tuple[Score, Score, Score]:
    """format, execution and goal of one act, each with an explanation. Never raises; the same act, the same scores."""
    return (
        _format(action, settings.format, abstain=settings.abstain_when_constrained),
        _execution(action, settings.execution),
        _goal(action, settings.goal),
    )


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
def not_applicable(component: str, limits: tuple[float, float], why: str) -> Score:
    """A score of the scorer `reward` that says why there is nothing to score, cached."""
    return Score(
        component=component,
        range=limits,
        status="not_applicable",
        explanation=why,
        scorer=BUILTIN_SCORER,
        version=VERSION,
    )


def _format(action: ActionTaken, values: FormatValues, *, abstain: bool) -> Score:
    held = _held(action.decoding) if action.constrained else ""
    if held and abstain:
        return not_applicable("format", values.range, f"{held} constrained the reply, so its form says nothing.")
    valid = action.action.valid
    why = "The reply is valid." if valid else f"The reply is not valid: {action.action.reason or 'no reason given'}."
    if held:
        why += f" {held} constrained it."
    return scored("format", format_reward(valid, values), values.range, why)


def _held(decoding: Decoding | None) -> str:
    """What a reply was held to, as the subject of a sentence."""
    return _CONSTRAINTS.get(decoding.constraint if decoding is not None else "free", "A constraint")


def _execution(action: ActionTaken, values: ExecutionValues) -> Score:
    act, status = action.action, action.outcome.status
    if status == "unknown":
        return not_applicable("execution", values.range, OUTCOME_UNKNOWN)
    if action.outcome.unavailable:
        why = f"The tool {act.skill} could not be used, for a reason outside of the agent."
        return not_applicable("execution", values.range, why)
    result = tool_result(action)
    work = work_of(action)
    if work is not None and act.valid and act.kind != "INVALID":
        value = worked_execution(action, work, values)
    else:
        value = execution_reward(act.kind, act.valid, result == "success", result == "idle", values)
    if not act.valid or act.kind == "INVALID":
        why = INVALID_REPLY
    elif act.kind == "TOOL":
        why = f"The tool {act.skill} ended with status {status}{_measured(action)}."
    else:
        why = f"The agent chose {_PLAIN_WORDS[act.kind]}{_open(work)}."
    return scored("execution", value, values.range, why)


def _open(work: GoalWork | None) -> str:
    """What was open while the agent rested, as the end of a sentence; empty where that was not counted."""
    if work is None:
        return ""
    return " while a goal was open or a message waited" if work.open else " with no goal open"


def _measured(action: ActionTaken) -> str:
    """What the measured effect adds to the status, as the end of a sentence; empty where it adds nothing."""
    effect = action.effect
    if effect is None or action.outcome.status == "blocked":
        return ""
    ran, result = [check for check in effect.checks if check.ran], tool_result(action)
    if effect.work is not None and (unpaid := _unpaid(action, effect.work)):
        return f"; {unpaid}"
    if any(check.changed_since for check in ran) and result == "success":
        return "; it ran a check of the changed workspace, which counts as a success whatever its verdict"
    if result != "idle":
        return ""
    if any(check.no_result for check in effect.checks):
        return "; it ran a test program that gave no result of a test: idle"
    return "; it ran a check of an unchanged workspace: idle" if ran else " and had no effect: idle"


def _unpaid(action: ActionTaken, work: GoalWork) -> str:
    """Why a call that had an effect is not paid, as the end of a sentence; empty where it is, or had none."""
    effect, result = action.effect, tool_result(action)
    if effect is None or moves_goal(action) or result not in ("look", "idle"):
        return ""
    if result == "look":
        return "it showed something new and moved no goal: less than a rest"
    tested = any(check.ran and check.changed_since for check in effect.checks)
    if (effect.kind != "change" and not tested) or any(check.no_result for check in effect.checks):
        return ""
    if work.appends > PAID_APPENDS and not tested:
        return f"it added to the same file {work.appends} times while no goal moved: idle"
    return "it moved no goal, and no more changes are paid until one is reached: idle"


def _goal(action: ActionTaken, values: GoalValues) -> Score:
    """With several active goals the best outcome counts. A check that could not be run is ignored, and so is a goal
    that the agent set itself until a person has accepted it."""
    checks: Sequence[GoalCheck] = action.goals
    if not checks and action.outcome.status == "unknown":
        return not_applicable("goal", values.range, f"{OUTCOME_UNKNOWN} No goal was checked.")
    if not checks:
        return not_applicable("goal", values.range, "No goal is active.")
    checks = [check for check in checks if check.accepted]
    if not checks:
        return not_applicable("goal", values.range, "No goal that a person set or accepted is active.")
    told = [check for check in checks if check.outcome != "error"]
    if not told:
        return Score(
            component="goal",
            range=values.range,
            status="error",
            explanation=f"No goal's check could be run: {checks[0].detail or checks[0].statement}.",
            scorer=BUILTIN_SCORER,
            version=VERSION,
        )
    best = max(told, key=lambda check: goal_reward(check.outcome, values))
    why = f"The goal “{best.statement}” came out {best.outcome}: {best.measure:g} of 1, best before {best.best:g}."
    return scored("goal", goal_reward(best.outcome, values), values.range, why)

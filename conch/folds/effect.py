"""How a tool call came out, and whether it brought new information, by the measured effect of the act. Pure.

Without the block `effect` (an act of an earlier version, an agent that does not measure) the status alone decides.
Without `effect.work` in it (before version 5 of the rules of `reward`) a change and information count whatever they are
for; with it, what moves no goal is paid only while it is a change within the allowance.
"""

from __future__ import annotations

from typing import Final, Literal

from conch_schemas import ActionTaken, GoalWork, MeasuredEffect

ToolResult = Literal["success", "look", "idle", "failure"]
"""`look`: it ended well and brought information, but moved no goal. `idle`: it ended well and had no effect, or one
that is not paid. Both earn less than a rest. Of an act without `effect.work` there is no `look`, and an idle one earns
what a rest earns."""

LEAST_NEW: Final = 5
"""Unseen lines from which on an act brings new information."""
PAID_APPENDS: Final = 2
"""How often lines that are only added to the same file are paid while no goal moves."""


def work_of(action: ActionTaken) -> GoalWork | None:
    """How the act stood to the agent's goals; None where it was not counted."""
    return action.effect.work if action.effect is not None else None


def moves_goal(action: ActionTaken) -> bool:
    """Whether the act raised a goal's measure, reached a goal or answered a person, as it was measured. A blocked act
    never does."""
    effect = action.effect
    return effect is not None and effect.kind in ("progress", "answer") and action.outcome.status != "blocked"


def rests_rightly(action: ActionTaken) -> bool:
    """Whether the act is a rest while no goal was open and no message waited."""
    work = work_of(action)
    return action.action.kind == "DO_NOTHING" and action.action.valid and work is not None and work.open == 0


def uses_allowance(action: ActionTaken) -> bool:
    """Whether the act was paid for a change, or for a test run after one, that moved no goal."""
    return work_of(action) is not None and tool_result(action) == "success" and not moves_goal(action)


def tool_result(action: ActionTaken) -> ToolResult | None:
    """The result of a valid tool call; None for every other act, after a crash, where no outcome is known, and where
    the tool could not be used for a reason outside of the agent.

    A check that ran to its end is a success whatever its verdict if the workspace had changed since it ran last; else
    it is idle, unless the act had another effect. A test program that gave no result of a test is idle, unless a goal
    moved: the output and the files of a failed build are no effect. What was blocked is a failure.
    """
    act, status, effect = action.action, action.outcome.status, action.effect
    if act.kind != "TOOL" or not act.valid or status == "unknown" or action.outcome.unavailable:
        return None
    if effect is None or status == "blocked":
        return "success" if status == "success" else "failure"
    if effect.work is not None:
        return _result_of_work(status, effect, effect.work)
    ran = [check for check in effect.checks if check.ran]
    if any(check.changed_since for check in ran):
        return "success"
    if any(check.no_result for check in effect.checks):
        return "success" if effect.kind in ("progress", "answer") else "idle"
    if ran or status == "success":
        return "idle" if effect.kind == "none" else "success"
    return "failure"


def brings_information(effect: MeasuredEffect) -> bool:
    """Whether the agent read something new: 5 unseen lines or the last ones of a file; noise brings none."""
    found = effect.information
    least = 1 if found.finished_file else LEAST_NEW
    return not effect.noise and (effect.kind == "information" or found.new >= least)


def _result_of_work(status: str, effect: MeasuredEffect, work: GoalWork) -> ToolResult:
    """The result of a call that was counted: a success where it moved a goal, else where its change or its check is
    paid."""
    if effect.kind in ("progress", "answer"):
        return "success"
    ran = [check for check in effect.checks if check.ran]
    if any(check.changed_since for check in ran):
        return "success" if work.allowance else "idle"
    if any(check.no_result for check in effect.checks):
        return "idle"
    if not ran and status != "success":
        return "failure"
    if effect.kind == "change":
        return "success" if work.allowance and work.appends <= PAID_APPENDS else "idle"
    return "look" if effect.kind == "information" else "idle"

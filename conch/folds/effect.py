"""How a tool call came out, and whether it brought new information, by the measured effect of the act. Pure.

Without the block `effect` (an act of an earlier version, an agent that does not measure) the status alone decides.
"""

from __future__ import annotations

from typing import Final, Literal

from conch_schemas import ActionTaken, MeasuredEffect

ToolResult = Literal["success", "idle", "failure"]
"""`idle`: it ended well and had no effect, so it earns what a rest earns, and moves no need."""

LEAST_NEW: Final = 5
"""Unseen lines from which on an act brings new information."""


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

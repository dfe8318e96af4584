"""The phase of an act of a task, and the shares of the roles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cycle.effects.phases import ROLE_WINDOW, ActPhase, phase_of, role_shares
from conch_schemas import Action, ActionTaken, CheckRun, Cut, MeasuredEffect, Outcome

NOTHING = MeasuredEffect()
EDITED = MeasuredEffect(kind="change", lines_changed=3)
REMOVED = MeasuredEffect(lines_changed=3)
READ = MeasuredEffect(kind="information")
TESTED = MeasuredEffect(checks=(CheckRun(goal="tests", ran=True),), lines_changed=1)
BUILD_FAILED = MeasuredEffect(kind="change", lines_changed=9, checks=(CheckRun(no_result=True),))
NOT_TESTED = MeasuredEffect(checks=(CheckRun(goal="tests"),))


def acted(
    tool: str = "shell", effect: MeasuredEffect | None = NOTHING, *, kind: str = "TOOL", **more: Any
) -> ActionTaken:
    """An act of a tool, or of another kind."""
    valid, operation = more.get("valid", True), more.get("operation")
    is_tool = kind == "TOOL"
    fields = {"kind": kind, "valid": valid, "tool": tool if is_tool else None, "text": None if is_tool else "so"}
    action = Action.model_validate(fields | {"args": {"operation": operation} if operation else {}})
    outcome = Outcome.model_validate(
        {"status": more.get("status", "success"), "output": Cut(text="", length=0, sha256="0" * 64)}
    )
    return ActionTaken(
        id="a", source="conch/echo/x", agent="echo", cycle=1, action_id="a", action=action, raw="", raw_length=0,
        raw_sha256="0" * 64, outcome=outcome, needs={}, thought="", model="m", ms={}, effect=effect,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("act", "phase"),
    [
        (acted("filesystem", READ, operation="read"), "planning"),
        (acted("filesystem", NOTHING, operation="read", status="error"), "planning"),
        (acted("notes", NOTHING), "planning"),
        (acted("shell", READ), "planning"),
        (acted("filesystem", EDITED, operation="write"), "coding"),
        (acted("shell", REMOVED, status="error"), "coding"),
        (acted("shell", TESTED, status="error"), "testing"),
        (acted("shell", NOT_TESTED), None),
        (acted("shell", BUILD_FAILED, status="error"), None),
        (acted("shell", NOTHING), None),
        (acted("shell", NOTHING, status="blocked"), None),
        (acted("filesystem", None, operation="read", status="unknown"), None),
        (acted("device", NOTHING), None),
        (acted(kind="REFLECT", status="none"), "critique"),
        (acted(kind="DO_NOTHING", status="none"), None),
        (acted(kind="INVALID", status="none", valid=False), None),
        (acted("filesystem", NOTHING, operation="read", status="none", valid=False), None),
    ],
)
def test_the_phase_is_told_by_what_an_act_does(act: ActionTaken, phase: str | None) -> None:
    """Reading is planning, changed lines are coding, a check that ran is testing, reflecting is critique."""
    assert phase_of(act) == phase


@pytest.mark.parametrize(
    ("act", "phase"),
    [
        (acted("filesystem", None, operation="read"), "planning"),
        (acted("filesystem", None, operation="write"), "coding"),
        (acted("filesystem", None, operation="write", status="error"), None),
        (acted("device", None), None),
        (acted("telescope", None), None),
    ],
)
def test_of_an_act_that_was_not_measured_the_declaration_decides(act: ActionTaken, phase: str | None) -> None:
    """An operation that may change files has changed them where it succeeded."""
    assert phase_of(act) == phase


def test_the_runner_is_the_coder() -> None:
    """Coding and testing are one role."""
    assert role_shares(["planning", "coding", "testing", "critique"]) == {
        "planner": 0.25,
        "coder_runner": 0.5,
        "critic": 0.25,
    }
    assert role_shares([]) is None


PHASES: list[ActPhase] = ["planning", "coding", "testing", "critique"]


@given(st.lists(st.sampled_from(PHASES), min_size=1, max_size=80))
def test_the_shares_are_of_the_last_acts_and_sum_to_1(phases: list[ActPhase]) -> None:
    """What lies further back than the window does not count."""
    shares = role_shares(phases)

    assert shares is not None
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares == role_shares(phases[-ROLE_WINDOW:])

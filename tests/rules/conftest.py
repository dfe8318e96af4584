"""Acts made from a few words."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import pytest

from conch.text import cut
from conch_schemas import (
    Action,
    ActionTaken,
    GoalCheck,
    MeasuredEffect,
    Outcome,
    action_id,
    cycle_event_id,
    source_of,
)

UID = "6f3f0d1e-56a0-4a3f-9c6b-0a8f3f1f1c11"


def make_act(
    cycle: int = 0,
    kind: str = "TOOL",
    *,
    valid: bool = True,
    status: str | None = None,
    output: str = "",
    tool: str = "shell",
    args: dict[str, Any] | None = None,
    goals: tuple[GoalCheck, ...] = (),
    constrained: bool = False,
    answered: str | None = None,
    step: int = 0,
    agent: str = "echo",
    effect: MeasuredEffect | None = None,
) -> ActionTaken:
    """One act of cycle `cycle`; without `status` it succeeds, or there is nothing to execute."""
    is_tool = kind == "TOOL"
    action = Action.model_validate(
        {
            "kind": kind,
            "valid": valid and kind != "INVALID",
            "reason": None if valid and kind != "INVALID" else "this is prose",
            "tool": tool if is_tool else None,
            "args": (args or {"command": "ls"}) if is_tool else {},
            "text": None if is_tool else "because",
        }
    )
    status = status or ("success" if is_tool and valid else "none")
    identity = action_id(UID, cycle, step)
    raw = f"{kind} {action.args}"
    return ActionTaken.model_validate(
        {
            "id": cycle_event_id(identity, ActionTaken),
            "source": source_of(agent, UID),
            "agent": agent,
            "cycle": cycle,
            "action_id": identity,
            "subject": identity,
            "action": action,
            "raw": raw,
            "raw_length": len(raw),
            "raw_sha256": hashlib.sha256(raw.encode()).hexdigest(),
            "outcome": Outcome.model_validate({"status": status, "output": cut(output), "answered": answered}),
            "goals": goals,
            "needs": {},
            "thought": "What is in the workspace?",
            "constrained": constrained,
            "model": "test",
            "ms": {},
            "step": step,
            "effect": effect,
        }
    )


def make_check(outcome: str, *, measure: float = 0.5, failed_before: bool = False) -> GoalCheck:
    """What a goal's check said."""
    return GoalCheck.model_validate(
        {
            "goal": "g1",
            "statement": "tests pass",
            "outcome": outcome,
            "measure": measure,
            "best": 0.0,
            "failed_before": failed_before,
            "detail": "exit status 127",
        }
    )


class MakeAct(Protocol):
    """Makes acts."""

    def __call__(
        self,
        cycle: int = 0,
        kind: str = "TOOL",
        *,
        valid: bool = True,
        status: str | None = None,
        output: str = "",
        tool: str = "shell",
        args: dict[str, Any] | None = None,
        goals: tuple[GoalCheck, ...] = (),
        constrained: bool = False,
        answered: str | None = None,
        step: int = 0,
        agent: str = "echo",
        effect: MeasuredEffect | None = None,
    ) -> ActionTaken:
        """See `make_act`."""


class MakeCheck(Protocol):
    """Makes results of goals' checks."""

    def __call__(self, outcome: str, *, measure: float = 0.5, failed_before: bool = False) -> GoalCheck:
        """See `make_check`."""


@pytest.fixture(scope="session")
def act() -> MakeAct:
    """Makes an act; shared, so that properties may use it."""
    return make_act


@pytest.fixture(scope="session")
def check() -> MakeCheck:
    """Makes a goal's check."""
    return make_check

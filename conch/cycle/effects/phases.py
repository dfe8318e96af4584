"""The phase of a task that an act belongs to, and the shares of the roles in the last acts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from conch.actions import effect_of
from conch_schemas import ActionTaken

ActPhase = Literal["planning", "coding", "testing", "critique"]
"""`planning`: it read, took a note or answered. `coding`: it changed lines of files. `testing`: it ran a goal's check
or a test program. `critique`: it reflected."""

ROLE_WINDOW = 32
"""Acts with a phase that the shares of the roles are taken over."""
_ROLES = {"planning": "planner", "coding": "coder_runner", "testing": "coder_runner", "critique": "critic"}


def phase_of(act: ActionTaken) -> ActPhase | None:
    """The phase of an act; None where it has none, and the task stays in its phase.

    A rest, an invalid reply, a blocked act and one with an unknown outcome have none, nor has a command that
    neither ran a check, changed a line nor brought information, or a test program that gave no result of a test. Of
    an act whose effect was not measured the declared effect decides: `read` is planning, `workspace` is coding
    where the act succeeded.
    """
    action, status, effect = act.action, act.outcome.status, act.effect
    if not action.valid or status in ("blocked", "unknown"):
        return None
    if action.kind == "REFLECT":
        return "critique"
    if action.kind != "TOOL":
        return None
    if effect is not None and any(run.no_result for run in effect.checks):
        return None
    declared = effect_of(action)
    if effect is None:
        edited, tested, read = declared == "workspace" and status == "success", False, declared == "read"
    else:
        edited = effect.kind == "change" or effect.lines_changed > 0
        tested = any(run.ran for run in effect.checks)
        read = effect.kind == "information" or declared == "read"
    return "testing" if tested else "coding" if edited else "planning" if read else None


def role_shares(phases: Sequence[ActPhase]) -> dict[str, float] | None:
    """The share of each role in the last ROLE_WINDOW of these acts, 0..1; the shares sum to 1. None without an act."""
    recent = [_ROLES[phase] for phase in phases[-ROLE_WINDOW:]]
    return {role: recent.count(role) / len(recent) for role in dict.fromkeys(_ROLES.values())} if recent else None

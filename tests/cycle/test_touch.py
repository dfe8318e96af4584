"""Which acts can have changed what a goal's check measures."""

from __future__ import annotations

from typing import Any

import pytest

from conch.cycle.state.effects import touched
from conch_schemas import Action


@pytest.mark.parametrize(
    ("tool", "effect", "status", "expected"),
    [
        ("any", "read", "success", False),
        ("any", "workspace", "success", True),
        ("any", "workspace", "error", True),
        ("any", "workspace", "unknown", True),
        ("any", "workspace", "blocked", False),
        ("any", "workspace", "none", False),
        ("any", "world", "success", False),
        ("any", None, "success", True),
        ("reply", None, "success", False),
        ("device", None, "success", False),
        ("shell", None, "success", True),
    ],
)
def test_goals_are_checked_again_after_what_may_have_changed_the_workspace(
    tool: str, effect: Any, status: Any, expected: bool
) -> None:
    """By the declared effect: of a read and of a command to a device no goal's measure can have moved."""
    action = Action(kind="TOOL", valid=True, tool=tool, declared_effect=effect)

    assert touched(action, status) is expected

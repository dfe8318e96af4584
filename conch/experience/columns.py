"""The columns of an experience's row that follow from its facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from conch_schemas import ActionTaken

NAME: Final = 100
"""Characters of a tool's name and of a skill that a column keeps: the name is a mind's to invent."""


def act_columns(act: ActionTaken) -> tuple[Any, ...]:
    """What the row of an experience says of its act: outcome, kind, tool, skill, valid, acted."""
    action = act.action
    tool = None if action.tool is None else action.tool[:NAME]
    acted = (act.time if act.time.tzinfo else act.time.replace(tzinfo=UTC)).timestamp()
    return act.outcome.status, action.kind, tool, action.skill[:NAME], action.valid, acted


def least_satisfied(needs: Mapping[str, float] | None) -> str | None:
    """The most urgent of these needs; of equals the first by name."""
    return min(sorted(needs), key=needs.__getitem__) if needs else None

"""Which actions can have changed the workspace, and with it a goal's measure."""

from __future__ import annotations

from conch_schemas import Action, OutcomeStatus

READ_ONLY = frozenset(
    {
        "filesystem.read",
        "filesystem.list",
        "filesystem.exists",
        "filesystem.info",
        "filesystem.grep",
        "filesystem.glob",
        "git.status",
        "git.log",
        "git.diff",
        "notes.remember",
        "notes.recall",
        "reply",
        "device",
    }
)
"""Skills that never change the workspace."""


def touched(action: Action, status: OutcomeStatus) -> bool:
    """Whether a check can have another result after this action than before. True for a tool not known here."""
    return status not in ("none", "blocked") and action.skill not in READ_ONLY

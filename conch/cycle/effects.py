"""Which acts can have changed the workspace, and so a goal's measure."""

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
"""Skills that leave the workspace as it is."""


def touched(action: Action, status: OutcomeStatus) -> bool:
    """Whether a check can come out otherwise after this act than before it. A tool not known here: yes."""
    return status not in ("none", "blocked") and action.skill not in READ_ONLY

"""The workspace that a new home starts with: a notebook about rock pools, goals on it, and what it is brought later."""

from conch.workspace.fill import WorkspaceTemplate, fill
from conch.workspace.goals import default_goals
from conch.workspace.material import KEPT, MaterialPiece, MaterialScript, lay_out, put_away
from conch.workspace.record import record_filled, script_of

__all__ = [
    "KEPT",
    "MaterialPiece",
    "MaterialScript",
    "WorkspaceTemplate",
    "default_goals",
    "fill",
    "lay_out",
    "put_away",
    "record_filled",
    "script_of",
]

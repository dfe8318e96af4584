"""The workspace that a new home starts with: a notebook about rock pools, goals on it, and what it is brought later."""

from conch.workspace.fill import WorkspaceTemplate, fill
from conch.workspace.goals import default_goals
from conch.workspace.made import is_made, record_made
from conch.workspace.material import KEPT, MaterialPiece, MaterialScript, lay_out, put_away
from conch.workspace.record import record_filled, script_of

__all__ = [
    "KEPT",
    "MaterialPiece",
    "MaterialScript",
    "WorkspaceTemplate",
    "default_goals",
    "fill",
    "is_made",
    "lay_out",
    "put_away",
    "record_filled",
    "record_made",
    "script_of",
]

"""The samples that a workspace can be filled with, goals on them, and what they are brought later."""

from conch.workspace.fill import WorkspaceTemplate, fill
from conch.workspace.goals import default_goals
from conch.workspace.made import is_made, record_made
from conch.workspace.material import KEPT, MaterialPiece, MaterialScript, lay_out, put_away
from conch.workspace.record import record_filled, sample_for_agents, sample_of, script_of
from conch.workspace.samples import BACKLOG, PANTRY, SAMPLES, TIDEPOOL, WorkspaceSample, named_sample

__all__ = [
    "BACKLOG",
    "KEPT",
    "PANTRY",
    "SAMPLES",
    "TIDEPOOL",
    "MaterialPiece",
    "MaterialScript",
    "WorkspaceSample",
    "WorkspaceTemplate",
    "default_goals",
    "fill",
    "is_made",
    "lay_out",
    "named_sample",
    "put_away",
    "record_filled",
    "record_made",
    "sample_for_agents",
    "sample_of",
    "script_of",
]

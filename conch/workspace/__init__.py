"""The workspace that a new home starts with: a notebook about rock pools, and goals on it."""

from conch.workspace.fill import WorkspaceTemplate, fill
from conch.workspace.goals import default_goals
from conch.workspace.made import is_made, record_made

__all__ = ["WorkspaceTemplate", "default_goals", "fill", "is_made", "record_made"]

"""The tools that every agent has."""

from conch.tools import filesystem, memory, programs
from conch.tools.declare import Tool
from conch.tools.proposals import goal

BUILTIN_TOOLS: tuple[Tool, ...] = (
    programs.shell,
    filesystem.filesystem,
    programs.git,
    memory.notes,
    memory.reply,
    goal.goal,
)
"""The tools that every agent has."""

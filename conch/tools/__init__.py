"""Tools of the agent, the sandbox that programs run in, and the checks of goals."""

from conch.tools import filesystem, memory, programs
from conch.tools.checks import CheckResult, run_check
from conch.tools.declare import Tool, ToolContext, ToolResult, tool
from conch.tools.isolation.sandbox import ProcessResult, Sandbox
from conch.tools.notes import Notes, NotesPool
from conch.tools.toolbox import Toolbox

BUILTIN_TOOLS: tuple[Tool, ...] = (
    programs.shell,
    filesystem.filesystem,
    programs.git,
    memory.notes,
    memory.reply,
)
"""The tools that every agent has."""

__all__ = [
    "BUILTIN_TOOLS",
    "CheckResult",
    "Notes",
    "NotesPool",
    "ProcessResult",
    "Sandbox",
    "Tool",
    "ToolContext",
    "ToolResult",
    "Toolbox",
    "run_check",
    "tool",
]

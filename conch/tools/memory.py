"""The tools `notes` and `reply`: the agent's notes, and answers to messages."""

from __future__ import annotations

from typing import Literal

from conch.actions import BUILTIN_EFFECTS
from conch.errors import ToolError
from conch.tools.declare import ToolContext, ToolResult, tool


@tool(effects=BUILTIN_EFFECTS["notes"])
async def notes(context: ToolContext, operation: Literal["remember", "recall"], text: str) -> str:
    """Keeps a note, or finds the notes about something.

    text: the note, or words to look for
    """
    if operation == "remember":
        return "kept" if context.notes.remember(text) else "known already"
    return "\n".join(f"- {note}" for note in context.notes.recall(text)) or "no note about that"


@tool(effects=BUILTIN_EFFECTS["reply"])
async def reply(context: ToolContext, text: str) -> ToolResult:
    """Answers the person whose message waits.

    text: the answer
    """
    if context.message is None:
        raise ToolError("nobody waits for an answer")
    if not text.strip():
        raise ToolError("an answer needs some text")
    return ToolResult(text, answered=context.message[0])

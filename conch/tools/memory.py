"""The tools `notes`, `reply` and `tell`: the agent's notes, answers to people, messages between roles of a team."""

from __future__ import annotations

from typing import Literal

from conch.actions import BUILTIN_EFFECTS
from conch.errors import ToolError
from conch.tools.declare import ToolContext, ToolResult, tool

TELL_TOOL = "tell"
"""The tool's name."""


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


def recipients_of(to: str) -> tuple[str, ...]:
    """The roles that an argument `to` names, separated by commas."""
    return tuple(name for part in to.split(",") if (name := part.strip().lower()))


@tool(effects=BUILTIN_EFFECTS[TELL_TOOL])
async def tell(context: ToolContext, to: str, text: str) -> str:
    """Sends a message to other roles of the team; they read it when they have the turn.

    to: a role, several separated by commas, or all
    text: the message
    """
    if context.message_objection is None:
        raise ToolError("there is no team to send a message to")
    if not text.strip():
        raise ToolError("a message needs some text")
    if (why := context.message_objection(recipients_of(to), text)) is not None:
        raise ToolError(why)
    return f"sent to {to}"

"""What an MCP server says, in the terms of the agent: a tool's signature and a call's result. Pure.

All of it is foreign text: it is cut, control characters are shown, and nothing of it is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types

from conch.actions import NAME, Argument, ArgumentType, Effects, ToolSpec
from conch.text import safe_text
from conch.tools.declare import ToolResult

DOC, ARGUMENT_DOC = 300, 150
"""Characters of the description of a tool, and of an argument, that are kept: they are in every prompt."""
MOST_CHOICES = 50
"""Most values of an enumeration that are choices; of more, any text is taken, and the server checks it."""
ERROR = 300
"""Characters of a server's error that are kept."""
_TYPES: Mapping[str, ArgumentType] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}


class UnusableToolError(Exception):
    """The tool has an argument that a reply cannot hold; the message says which."""


def name_of(server: str, tool: str) -> str:
    """The name by which the mind calls the tool: small letters, digits and underscores."""
    return re.sub(r"[^a-z0-9_]", "_", f"{server}_{tool}".lower())[:64]


def spec_of(server: str, tool: mcp_types.Tool, effects: Effects) -> ToolSpec:
    """The tool's signature. An optional argument that a reply cannot hold is left out.

    Raises UnusableToolError for such an argument that the tool needs.
    """
    schema = tool.input_schema
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise UnusableToolError("its input schema is none")
    arguments = []
    for name, described in properties.items():
        argument = _argument(str(name), described, required=name in required)
        if argument is not None:
            arguments.append(argument)
        elif name in required:
            raise UnusableToolError(f"it needs the argument {_line(str(name), 60)!r}, which a reply cannot hold")
    arguments.sort(key=lambda argument: not argument.required)
    return ToolSpec(name_of(server, tool.name), _line(tool.description or tool.name, DOC), tuple(arguments), effects)


def _argument(name: str, described: Any, *, required: bool) -> Argument | None:
    kinds = _kinds(described)
    known = [_TYPES[kind] for kind in kinds if kind in _TYPES]
    if not NAME.fullmatch(name) or len(known) != 1 or len(kinds - {"null"}) != 1:
        return None
    enum = described.get("enum", [])
    is_list = known[0] == "string" and isinstance(enum, list) and 0 < len(enum) <= MOST_CHOICES
    choices = tuple(one for one in enum if isinstance(one, str)) if is_list else ()
    doc = described.get("description")
    return Argument(name, known[0], required, choices, _line(doc, ARGUMENT_DOC) if isinstance(doc, str) else "")


def _kinds(described: Any) -> set[str]:
    """The JSON types that the schema of an argument names."""
    if not isinstance(described, dict):
        return set()
    kind = described.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {one for one in kind if isinstance(one, str)}
    others = described.get("anyOf") or described.get("oneOf") or []
    return {one for other in others for one in _kinds(other)} if isinstance(others, list) else set()


def result_of(name: str, result: mcp_types.CallToolResult, most: int) -> ToolResult:
    """The outcome of a call: its text, at most `most` bytes; what is no text is named in its place."""
    text = "\n".join(_words(block) for block in result.content)
    size = len(text.encode(errors="replace"))
    if size > most:
        kept = text.encode(errors="replace")[:most].decode(errors="ignore")
        return ToolResult(kept, "error", f"{name} returned {size // 1024} KiB, more than {most // 1024} (output_kib)")
    if result.is_error:
        return ToolResult(text, "error", _line(text, ERROR) or f"{name} failed and gave no reason")
    return ToolResult(text)


def _words(block: object) -> str:
    match block:
        case mcp_types.TextContent():
            return block.text
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            kind = "an image" if isinstance(block, mcp_types.ImageContent) else "a sound"
            size = len(block.data.rstrip("=")) * 3 // 4
            return f"[{kind} ({_line(block.mime_type, 60)}, {size} bytes), which cannot be shown here, is left out]"
        case mcp_types.ResourceLink():
            return f"[a link to {_line(str(block.uri), 300)}]"
        case mcp_types.EmbeddedResource():
            if isinstance(block.resource, mcp_types.TextResourceContents):
                return block.resource.text
            return f"[a resource ({_line(str(block.resource.uri), 300)}), which is no text, is left out]"
    return "[content of an unknown kind is left out]"


def changed(before: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> dict[str, str]:
    """The tools of `before` that are not as they were, by name, and how: gone, or with another signature."""
    there = {spec.name: spec for spec in now}
    found = {}
    for spec in before:
        if spec.name not in there:
            found[spec.name] = "removed"
        elif (spec.arguments, spec.doc) != (there[spec.name].arguments, there[spec.name].doc):
            found[spec.name] = "changed"
    return found


def _line(text: str, most: int) -> str:
    flat = safe_text(text[: 4 * most], one_line=True).strip()
    return flat if len(flat) <= most else flat[: most - 1] + "…"

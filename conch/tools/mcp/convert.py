"""What an MCP server says, in the terms of the agent: a tool's signature and a call's result. Pure.

All of it is foreign text: it is cut, control characters are shown, and nothing of it is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mcp_types
from pydantic import JsonValue, TypeAdapter, ValidationError

from conch.actions import NAME, Argument, DescribedArgument, Effects, ToolSchema, ToolSpec, UnreadableSchemaError
from conch.text import safe_text
from conch.tools.declare import ToolResult

DOC, ARGUMENT_DOC = 300, 150
"""Characters of the description of a tool, and of an argument, that are kept: they are in every prompt."""
FIELDS = 150
"""Characters of the fields of an argument that is an object, and of the values of one that is no text."""
MOST_ARGUMENTS = 32
"""Most arguments of a tool: each is in every prompt."""
NAMED = 5
"""Most arguments that are named in a sentence about those that are left out."""
ERROR = 300
"""Characters of a server's error that are kept."""
_BLOCK: TypeAdapter[mcp_types.ContentBlock] = TypeAdapter(mcp_types.ContentBlock)


class UnusableToolError(Exception):
    """The tool cannot be called by a reply; the message says why."""


class OfferedTool(NamedTuple):
    """A tool as it stands in the server's list."""

    name: str
    doc: str
    schema: JsonValue
    """Of its arguments, unread."""


class ConvertedTool(NamedTuple):
    """A tool of a server as a tool of the agent."""

    spec: ToolSpec
    arguments: Mapping[str, str]
    """The server's name of each argument, by the agent's."""
    left_out: tuple[str, ...]
    """Each argument that is left out, and why, as `name (why)`."""

    def theirs(self, args: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The arguments of a call by the server's names."""
        return {self.arguments[name]: value for name, value in args.items()}


def name_of(server: str, tool: str) -> str:
    """The name by which the mind calls the tool: small letters, digits and underscores."""
    return re.sub(r"[^a-z0-9_]", "_", f"{server}_{tool}".lower())[:64]


def offered(entry: JsonValue) -> OfferedTool:
    """An entry of the server's list. Raises UnusableToolError for one that names no tool."""
    if not isinstance(entry, dict):
        raise UnusableToolError("it is no object")
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UnusableToolError("it has no name")
    texts = (entry.get("description"), entry.get("title"), name)
    doc = next(text for text in texts if isinstance(text, str) and text.strip())
    return OfferedTool(name, _line(doc, DOC), entry.get("inputSchema"))


def converted(server: str, tool: OfferedTool, effects: Effects) -> ConvertedTool:
    """The tool of the agent. An optional argument that a reply cannot hold is left out.

    Raises UnusableToolError for such an argument that the tool needs, and for a schema that admits no call.
    """
    try:
        schema = ToolSchema(tool.schema)
    except UnreadableSchemaError as error:
        raise UnusableToolError(str(error)) from None
    arguments: dict[str, Argument] = {}
    theirs: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for at, name in enumerate(_in_order(schema)):
        own = re.sub(r"[^A-Za-z0-9_]", "_", name)[:64]
        try:
            if own in arguments or not NAME.fullmatch(own):
                raise UnreadableSchemaError("another has its name" if own in arguments else "it has no name")
            if at >= MOST_ARGUMENTS:
                raise UnreadableSchemaError(f"there are over {MOST_ARGUMENTS}")
            described = schema.argument(name)
        except UnreadableSchemaError as error:
            left_out[name] = str(error)
            continue
        arguments[own] = _argument(own, described, required=name in schema.required)
        theirs[own] = name
    for name in schema.required & left_out.keys():
        raise UnusableToolError(
            f"it needs the argument {_line(name, 60)!r}, which a reply cannot hold: {left_out[name]}"
        )
    spec = ToolSpec(name_of(server, tool.name), tool.doc, tuple(arguments.values()), effects)
    return ConvertedTool(spec, theirs, tuple(f"{_line(name, 60)} ({why})" for name, why in left_out.items()))


def left_out_words(left_out: Sequence[str]) -> str:
    """The first of these, and the number of the others."""
    more = f" and {len(left_out) - NAMED} more" if len(left_out) > NAMED else ""
    return ", ".join(left_out[:NAMED]) + more


def _in_order(schema: ToolSchema) -> list[str]:
    """The names of all arguments: the required ones first, and of those the ones that keep their name."""
    names = dict.fromkeys([*schema.properties, *sorted(schema.required)])
    return sorted(names, key=lambda name: (name not in schema.required, NAME.fullmatch(name) is None))


def _argument(name: str, described: DescribedArgument, *, required: bool) -> Argument:
    doc = _line(described.doc, ARGUMENT_DOC)
    if described.values:
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in described.values)
        doc = f"{doc} One of {_line(values, FIELDS)}."
    elif described.fields:
        doc = f"{doc} Fields: {_line(described.fields, FIELDS)}."
    return Argument(name, described.type, required, described.choices, doc.strip())


def result_of(name: str, result: Mapping[str, JsonValue], most: int) -> ToolResult:
    """The outcome of a call: its text, at most `most` bytes; what is no text is named in its place.

    A result without content is shown by its structured content, as JSON.
    """
    content = result.get("content")
    blocks: list[JsonValue] = content if isinstance(content, list) else [] if content is None else [content]
    structured = result.get("structuredContent", result.get("toolResult"))
    if not blocks and structured is not None:
        blocks = [json.dumps(structured, ensure_ascii=False)]
    text = "\n".join(_words(block) for block in blocks)
    size = len(text.encode(errors="replace"))
    if size > most:
        kept = text.encode(errors="replace")[:most].decode(errors="ignore")
        return ToolResult(kept, "error", f"{name} returned {size // 1024} KiB, more than {most // 1024} (output_kib)")
    if result.get("isError") is True:
        return ToolResult(text, "error", _line(text, ERROR) or f"{name} failed and gave no reason")
    return ToolResult(text)


def _words(block: JsonValue) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") == "text" and "text" in block:
        text = block["text"]
        return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    try:
        read = _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        return "[content of an unknown kind is left out]"
    match read:
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            kind = "an image" if isinstance(read, mcp_types.ImageContent) else "a sound"
            size = len(read.data.rstrip("=")) * 3 // 4
            return f"[{kind} ({_line(read.mime_type, 60)}, {size} bytes), which cannot be shown here, is left out]"
        case mcp_types.ResourceLink():
            return f"[a link to {_line(str(read.uri), 300)}]"
        case mcp_types.EmbeddedResource():
            if isinstance(read.resource, mcp_types.TextResourceContents):
                return read.resource.text
            return f"[a resource ({_line(str(read.resource.uri), 300)}), which is no text, is left out]"
        case mcp_types.TextContent():
            return read.text


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

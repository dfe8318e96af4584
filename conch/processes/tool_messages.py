"""Messages between an agent's process and the process of a file of tools: one JSON object a line.

The process's stdin gets a `ToolFileTask`, answered by `ToolsLoaded` or `ToolsFailed`; then calls, each answered by one
line, in order.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

from conch.actions import ToolSpec
from conch.processes.line import PipeMessage, decode


class ToolFileTask(PipeMessage):
    """The file whose tools the process runs."""

    kind: Literal["task"] = "task"
    file: str
    text: str
    """The file's text when the run began."""
    memory_mib: int
    """Limit of the process's address space, in MiB."""
    output_kib: int
    """KiB that a tool may return."""


class ToolCall(PipeMessage):
    """A call of one of the tools; its arguments fit the tool's signature."""

    kind: Literal["call"] = "call"
    id: int
    tool: str
    args: dict[str, JsonValue]


class ToolsLoaded(PipeMessage):
    """The file is loaded; calls may come."""

    kind: Literal["loaded"] = "loaded"
    tools: tuple[ToolSpec, ...]
    """In the order of the file."""


class ToolAnswered(PipeMessage):
    """The result of a call."""

    kind: Literal["answered"] = "answered"
    id: int
    output: str = ""
    status: Literal["success", "error"] = "success"
    error: str | None = None
    exit_code: int | None = None


class ToolsFailed(PipeMessage):
    """The file could not be loaded."""

    kind: Literal["failed"] = "failed"
    error: str


ToolHostAnswer = ToolsLoaded | ToolAnswered | ToolsFailed
"""The messages that the process writes."""
_ANSWERS: TypeAdapter[ToolHostAnswer] = TypeAdapter(
    Annotated[ToolHostAnswer, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def decode_tool_answer(line: bytes) -> ToolHostAnswer:
    """The answer in a line of the process. Raises ContractError, in one sentence, for anything else."""
    return decode(_ANSWERS, line, "an answer")

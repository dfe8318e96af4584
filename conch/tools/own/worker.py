"""`python -m conch.tools.own.worker`: the process that the tools of one file run in.

Its lines are those of `conch.processes.tool_messages`. What a tool prints goes to stderr, and on stdin it finds
nothing. The process ends with its stdin.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import resource
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import IO

from conch.actions import Registry
from conch.errors import ContractError
from conch.installed import error_words
from conch.processes import (
    ToolAnswered,
    ToolCall,
    ToolFileTask,
    ToolHostAnswer,
    ToolsFailed,
    ToolsLoaded,
    decode_line,
    module_of,
)
from conch.tools.declare import Tool, ToolResult


def tools_of(file: str, text: str) -> dict[str, Tool]:
    """The tools that the file declares, by name. Raises ContractError where it declares none, or one that cannot run in
    a process of its own. Exceptions of the import are not caught."""
    declared = {id(value): value for value in vars(module_of(Path(file), text)).values() if isinstance(value, Tool)}
    found = {tool.spec.name: tool for tool in declared.values()}
    if not found:
        raise ContractError("it declares no @tool")
    if len(found) != len(declared):
        raise ContractError("two of its tools have one name")
    Registry(tool.spec for tool in found.values())
    for name, tool in found.items():
        if tool.wants_context:
            raise ContractError(f"the tool {name} takes a ToolContext, which a process of its own does not have")
    return found


def answer_of(tool: Tool, call: ToolCall, most: int) -> ToolAnswered:
    """The result of a call, its output at most `most` bytes. Exceptions of the tool are not caught."""
    made = tool.function(**call.args)
    result = asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made
    if isinstance(result, str):
        result = ToolResult(result)
    if not isinstance(result, ToolResult):
        raise TypeError(f"returned {type(result).__name__}, not text")
    data = result.output.encode(errors="replace")
    if len(data) > most:
        kept = data[:most].decode(errors="ignore")
        error = f"{call.tool} returned {len(data) // 1024} KiB, more than {most // 1024} (tools.output_kib)"
        return ToolAnswered(id=call.id, output=kept, status="error", error=error)
    status, error_ = ("success", None) if result.status == "success" else ("error", result.error or result.status)
    return ToolAnswered.model_validate(
        {"id": call.id, "output": result.output, "status": status, "error": error_, "exit_code": result.exit_code}
    )


async def _awaited(made: Awaitable[str | ToolResult]) -> str | ToolResult:
    return await made


def _write(answers: IO[bytes], answer: ToolHostAnswer) -> None:
    answers.write(answer.encode())
    answers.flush()


def _serve(file: str, tools: dict[str, Tool], most: int, calls: IO[bytes], answers: IO[bytes]) -> None:
    own = os.getpid()
    while line := calls.readline():
        call = decode_line(ToolCall, line, "a call of a tool")
        try:
            answer = answer_of(tools[call.tool], call, most)
        except BaseException as error:
            answer = ToolAnswered(id=call.id, status="error", error=f"{call.tool} failed: {error_words(error, file)}")
        if os.getpid() != own:
            os._exit(0)  # the tool forked, and this is its child
        _write(answers, answer)


def main() -> None:
    """Load the file, report its tools, then run them."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what a tool prints is there at once, also where it is killed
    task = decode_line(ToolFileTask, calls.readline(), "the task of a process of tools")
    limit = task.memory_mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        tools = tools_of(task.file, task.text)
        loaded = ToolsLoaded(tools=tuple(tool.spec for tool in tools.values()))
    except BaseException as error:
        _write(answers, ToolsFailed(error=error_words(error, task.file)))
        return
    _write(answers, loaded)
    _serve(task.file, tools, task.output_kib * 1024, calls, answers)


if __name__ == "__main__":
    main()

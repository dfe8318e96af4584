"""The tools of a Python file, run in a process of their own: a tool that blocks, grows or exits harms only its file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import JsonValue

from conch.config import ToolSettings
from conch.errors import ContractError, UsageError
from conch.log import get_logger
from conch.processes import (
    PluginProcess,
    ToolAnswered,
    ToolCall,
    ToolFileTask,
    ToolHostAnswer,
    ToolsLoaded,
    WorkerGoneError,
    decode_tool_answer,
    text_of,
)
from conch.python_child import python_command
from conch.tasks import concurrently
from conch.text import safe_text
from conch.tools.declare import Tool, ToolResult

log = get_logger(__name__)

START_SECONDS = 20.0
"""Time to import a file: as much as a rule's file has."""
ESCAPED = 6
"""Most bytes of JSON for a byte of text: a control character is written as six."""
LINE_BYTES = 64 * 1024
"""Bytes of an answer beside its output: the signatures of the tools of a file have room."""


class ToolFile:
    """The process of one file of tools. One call at a time; it is started again after it died."""

    def __init__(self, file: str, settings: ToolSettings) -> None:
        self._file, self._settings = file, settings
        self._text = ""
        self._process: PluginProcess | None = None
        self._lock = asyncio.Lock()
        self._calls = 0

    async def open(self) -> list[Tool]:
        """Import the file; its tools. Raises UsageError, one sentence, for a file that is missing or broken."""
        try:
            self._text = await asyncio.to_thread(text_of, self._file)
        except (OSError, SyntaxError, UnicodeDecodeError, ContractError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"the tools of {self._file} cannot be read: {why} (tools.files)") from None
        try:
            loaded = await self._start()
        except WorkerGoneError as gone:
            raise UsageError(f"the tools of {self._file} cannot be used: {gone} (tools.files)") from None
        return [self._tool(spec.name, loaded) for spec in loaded.tools]

    def _tool(self, name: str, loaded: ToolsLoaded) -> Tool:
        async def call(**args: JsonValue) -> ToolResult:
            return await self._call(name, args)

        spec = next(one for one in loaded.tools if one.name == name)
        return Tool(spec, call, wants_context=False, origin=f"file {self._file}")

    async def _call(self, name: str, args: dict[str, JsonValue]) -> ToolResult:
        """The result of a call. Cancelled, the process is ended; the next call has a new one."""
        async with self._lock:
            try:
                if self._process is not None and self._process.returncode is not None:
                    await self.close()  # it ended between two calls: this one is not to blame
                if self._process is None:
                    await self._start()
                self._calls += 1
                async with asyncio.timeout(self._settings.timeout):
                    answer = await self._answer_to(ToolCall(id=self._calls, tool=name, args=args))
            except TimeoutError:
                await self.close()
                return ToolResult(status="timeout", error=f"{name} took longer than {self._settings.timeout:g} seconds")
            except WorkerGoneError as gone:
                await self.close()
                return ToolResult(status="error", error=f"{name} failed: {gone}")
            except asyncio.CancelledError:
                await self.close()
                raise
        return ToolResult(answer.output, answer.status, answer.error, answer.exit_code)

    async def _start(self) -> ToolsLoaded:
        limit = ESCAPED * self._settings.output_kib * 1024 + LINE_BYTES
        command = python_command("conch.tools.own.worker")
        self._process = await PluginProcess.start(command, "the tool", self._printed, line_limit=limit)
        task = ToolFileTask(
            file=self._file,
            text=self._text,
            memory_mib=self._settings.memory_mib,
            output_kib=self._settings.output_kib,
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._process.tell(task.encode())
                answer = await self._answer()
        except TimeoutError:
            await self.close()
            raise WorkerGoneError(f"the file was still being imported after {START_SECONDS:g} s") from None
        except WorkerGoneError:
            await self.close()
            raise
        if not isinstance(answer, ToolsLoaded):
            await self.close()
            raise WorkerGoneError(safe_text(answer.error or "", one_line=True))
        return answer

    async def _answer_to(self, call: ToolCall) -> ToolAnswered:
        assert self._process is not None
        await self._process.tell(call.encode())
        while True:
            answer = await self._answer()
            if isinstance(answer, ToolAnswered) and answer.id == call.id:
                return answer
            log.warning("tool.spoke_out_of_turn", file=self._file)

    async def _answer(self) -> ToolHostAnswer:
        assert self._process is not None
        try:
            return decode_tool_answer(await self._process.line())
        except (ContractError, ValueError):
            raise WorkerGoneError("its process wrote something else than an answer") from None

    def _printed(self, said: str) -> None:
        log.info("tool.printed", file=self._file, said=said)

    async def close(self) -> None:
        """End the process and all that it started. A second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            await process.close()


async def open_files(files: Sequence[ToolFile]) -> list[Tool]:
    """The tools of all files, in their order. Raises UsageError with the first that is broken."""
    return [tool for tools in await concurrently(ToolFile.open, files) for tool in tools]

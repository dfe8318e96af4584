"""An MCP server and its tools: started, asked what it offers, called, and started again when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx2
import mcp_types
from mcp import ClientSession, MCPError
from pydantic import JsonValue, ValidationError

from conch.config import Masker, McpServerSettings, McpToolSettings
from conch.errors import ClientEnvironmentError, UsageError
from conch.log import get_logger
from conch.processes import PluginProcess
from conch.retry import MCP_SERVER
from conch.tasks import OwnedTasks, background, innermost
from conch.text import safe_text
from conch.tools.declare import Tool, ToolResult
from conch.tools.mcp.convert import (
    ConvertedTool,
    UnusableToolError,
    changed,
    converted,
    left_out_words,
    offered,
    result_of,
)
from conch.tools.mcp.transport import UnreadDispatcher, http_streams, process_streams, unread_result

log = get_logger(__name__)

MOST_TOOLS = 64
"""Most tools that are taken of one server: each is in every prompt."""
MOST_PAGES = 20
"""Most pages of a server's list of tools that are read."""
MOST_TOLD = 20
"""Most tools that are named as left out."""
WORDS = 300
"""Characters of a reason that are kept."""
ESCAPED = 2
"""Bytes of a message for a byte of its text: quotes and line ends are written as two."""
LINE_BYTES = 256 * 1024
"""Bytes of a message beside a result: a list of tools with their schemas has room."""
Tell = Callable[[str], None]
"""Is told what happens to a server, in a sentence."""


class McpServer:
    """One MCP server of the settings. `open` starts it, `close` ends it; between the two it is kept up."""

    def __init__(self, name: str, settings: McpServerSettings, tell: Tell) -> None:
        self._name, self._settings, self._tell = name, settings, tell
        self._session: ClientSession | None = None
        self._why = "it has not started yet"
        """Why there is no session."""
        self._specs: dict[str, str] = {}
        self._declared: list[Tool] | None = None
        """The tools of the first list; None: it has not come yet."""
        self._masker = Masker(
            value.get_secret_value() for of in (settings.env, settings.headers) for value in of.values()
        )
        self._differ: dict[str, str] = {}
        """The tools that the server has changed or removed since it was first asked, by name, and how."""
        self._process: PluginProcess | None = None
        self._ended, self._listed = asyncio.Event(), asyncio.Event()
        self._tasks = OwnedTasks()

    async def open(self) -> list[Tool]:
        """Start the server; its tools. Raises UsageError, one sentence, where it cannot be used."""
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._keep(first), name=f"conch.mcp.{self._name}")
        try:
            async with asyncio.timeout(self._settings.timeout):
                await first
        except TimeoutError:
            said = self._masker.text(self._process.last_words()) if self._process is not None else ""
            raise self._unusable(f"it does not answer within {self._settings.timeout:g} s{said}") from None
        if missing := sorted(set(self._settings.tools) - set(self._specs.values())):
            raise self._unusable(f"it has no usable tool {missing[0]!r}, there are {self._offered()}")
        return self._declared or []

    def _offered(self) -> str:
        return safe_text(", ".join(sorted(self._specs.values())), one_line=True)[:WORDS] or "none"

    def _unusable(self, why: str) -> UsageError:
        return UsageError(f"the MCP server {self._name} cannot be used: {why} (tools.mcp.{self._name})")

    async def close(self) -> None:
        """End the server and its process. A second call does nothing."""
        await self._tasks.close()

    async def _keep(self, first: asyncio.Future[None]) -> None:
        """Keep the server up; never returns unless its first start fails, which `first` is told."""
        failures, environment = 0, None
        while True:
            try:
                async with self._connected() as session:
                    await self._look(session)
                    self._session, failures = session, 0
                    if first.done():
                        self._tell(f"the MCP server {self._name} is up again")
                    else:
                        first.set_result(None)
                    await self._serve(session)
                why = self._why
            except Exception as error:
                environment = error if isinstance(error, ClientEnvironmentError) else None
                why = self._why = self._why if self._ended.is_set() else _reason(error)
            finally:
                self._session = None
            if not first.done():
                first.set_exception(environment or self._unusable(why))
                return
            failures += 1
            wait = MCP_SERVER.after(failures)
            self._tell(f"the MCP server {self._name} is gone ({why}); it is started again in {wait:.1f} s")
            await asyncio.sleep(wait)

    async def _serve(self, session: ClientSession) -> None:
        """Take new lists of tools until the server is gone."""
        while not self._ended.is_set():
            self._listed.clear()
            async with (
                background(self._ended.wait(), name="conch.mcp.ended") as ended,
                background(self._listed.wait(), name="conch.mcp.listed") as listed,
            ):
                await asyncio.wait({ended, listed}, return_when=asyncio.FIRST_COMPLETED)
            if not self._ended.is_set():
                await self._look(session)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[ClientSession]:
        self._ended.clear()
        most = ESCAPED * self._settings.output_kib * 1024 + LINE_BYTES
        if self._settings.url is not None:
            headers = {name: value.get_secret_value() for name, value in self._settings.headers.items()}
            async with (
                http_streams(self._settings.url, headers, self._settings.timeout, most) as streams,
                ClientSession(message_handler=self._heard, dispatcher=UnreadDispatcher(*streams)) as session,
            ):
                await session.initialize()
                yield session
            return
        variables = {name: value.get_secret_value() for name, value in self._settings.env.items()}
        process = self._process = await PluginProcess.start(
            self._settings.command, "it", self._printed, variables=variables, line_limit=most
        )
        try:
            async with (
                process_streams(process, self._gone) as streams,
                ClientSession(message_handler=self._heard, dispatcher=UnreadDispatcher(*streams)) as session,
            ):
                await session.initialize()
                yield session
        finally:
            await process.close()

    def _gone(self, why: str) -> None:
        self._why = self._masker.text(why)
        self._ended.set()

    async def _heard(self, message: mcp_types.ServerNotification | Exception) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._listed.set()

    def _printed(self, said: str) -> None:
        log.info("mcp.printed", server=self._name, said=said)

    async def _look(self, session: ClientSession) -> None:
        """Ask for the tools; the first answer declares them, a later one is compared with it."""
        listed = await _listed_tools(session)
        tools: dict[str, tuple[ConvertedTool, str, McpToolSettings]] = {}
        left_out = [("the rest of the list", listed.broken)] if listed.broken else []
        wanted = self._settings.tools
        for number, entry in enumerate(listed.entries, 1):
            name = f"number {number}"
            try:
                tool = offered(entry)
                name = tool.name
                if wanted and name not in wanted:
                    continue
                own = wanted.get(name, McpToolSettings())
                as_ours = converted(self._name, tool, own.effects or self._settings.effects or {})
                if as_ours.spec.name in tools:
                    raise UnusableToolError("two have its name")
                if len(tools) >= MOST_TOOLS:
                    raise UnusableToolError(f"there are over {MOST_TOOLS}")
                tools[as_ours.spec.name] = (as_ours, name, own)
            except UnusableToolError as unusable:
                left_out.append((f"the tool {safe_text(name, one_line=True)[:60]}", str(unusable)))
        if self._declared is None:
            self._tell_of_lacks(left_out, tools.values())
            self._specs = {spec_name: name for spec_name, (_, name, _) in tools.items()}
            self._declared = [self._tool(as_ours, name, own) for as_ours, name, own in tools.values()]
            return
        differ = changed([tool.spec for tool in self._declared], [as_ours.spec for as_ours, _, _ in tools.values()])
        for name, how in differ.items():
            if self._differ.get(name) != how:
                self._tell(f"the MCP server {self._name} has {how} its tool {self._specs[name]}: it is not called")
        self._differ = differ

    def _tell_of_lacks(
        self, left_out: Sequence[tuple[str, str]], taken: Iterable[tuple[ConvertedTool, str, McpToolSettings]]
    ) -> None:
        """Tell which tools and arguments are left out, and why."""
        for what, why in left_out[:MOST_TOLD]:
            log.warning("mcp.tool_left_out", server=self._name, tool=what, why=why)
            self._tell(f"{what} of the MCP server {self._name} is left out: {why}")
        if (more := len(left_out) - MOST_TOLD) > 0:
            mend = f"tools.mcp.{self._name}.tools names those that are wanted"
            self._tell(f"{more} more tools of the MCP server {self._name} are left out: {mend}")
        for as_ours, name, _ in taken:
            if as_ours.left_out:
                words = left_out_words(as_ours.left_out)
                log.warning("mcp.argument_left_out", server=self._name, tool=as_ours.spec.name, why=words)
                shown = safe_text(name, one_line=True)[:60]
                self._tell(f"the tool {shown} of the MCP server {self._name} is taken without its optional {words}")

    def _tool(self, as_ours: ConvertedTool, name: str, own: McpToolSettings) -> Tool:
        limit = own.timeout or self._settings.timeout
        most = (own.output_kib or self._settings.output_kib) * 1024

        async def call(**args: JsonValue) -> ToolResult:
            return await self._call(as_ours.spec.name, name, as_ours.theirs(args), limit, most)

        return Tool(as_ours.spec, call, wants_context=False, timeout=limit, origin=f"MCP server {self._name}")

    async def _call(self, name: str, theirs: str, args: dict[str, JsonValue], limit: float, most: int) -> ToolResult:
        if how := self._differ.get(name):
            why = f"the MCP server {self._name} has {how} {theirs} since the run began"
            return ToolResult(status="error", error=f"{why}: the next run takes it as it is")
        if (session := self._session) is None:
            return ToolResult(status="error", error=f"the MCP server {self._name} is away: {self._why}")
        asked: dict[str, JsonValue] = {"name": theirs, "arguments": args}
        try:
            async with (
                background(unread_result(session, "tools/call", asked), name="conch.mcp.call") as calling,
                background(self._ended.wait(), name="conch.mcp.ended") as ended,
            ):
                await asyncio.wait({calling, ended}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
                if self._ended.is_set():
                    if calling.done():
                        calling.exception()  # the same, less well said
                    return ToolResult(status="error", error=f"the MCP server {self._name} is gone: {self._why}")
                if not calling.done():
                    return ToolResult(status="timeout", error=f"{name} took longer than {limit:g} seconds")
                return result_of(name, calling.result(), most)
        except Exception as error:
            if self._settings.url is not None and not isinstance(error, MCPError):
                self._gone(_reason(error))  # there is no process that could have ended
            return ToolResult(status="error", error=f"{name} failed: {_reason(error)}")


class _ListedTools(NamedTuple):
    entries: list[JsonValue]
    """In the server's order, unread."""
    broken: str
    """Why there are no more; empty: these are all."""


async def _listed_tools(session: ClientSession) -> _ListedTools:
    """The server's list of tools, page by page. Raises MCPError where there is no first page."""
    found: list[JsonValue] = []
    cursor: JsonValue = None
    for _ in range(MOST_PAGES):
        params: dict[str, JsonValue] | None = None if cursor is None else {"cursor": cursor}
        try:
            page = await unread_result(session, "tools/list", params)
        except MCPError as error:
            if cursor is None:
                raise
            return _ListedTools(found, _reason(error))
        entries = page.get("tools")
        if not isinstance(entries, list):
            return _ListedTools(found, "a page of it has no list of tools")
        found += entries
        if not (cursor := page.get("nextCursor")):
            return _ListedTools(found, "")
    return _ListedTools(found, f"it has more than {MOST_PAGES} pages")


def _reason(error: BaseException) -> str:
    inner = innermost(error) if isinstance(error, BaseExceptionGroup) else error
    if isinstance(inner, OSError) and inner.strerror:
        where = f" ({inner.filename})" if inner.filename else ""
        return safe_text(f"{inner.strerror}{where}", one_line=True)[:WORDS]
    if isinstance(inner, ValidationError):
        first = inner.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return safe_text(f"its reply is not one of MCP's, {where}: {first['msg']}", one_line=True)[:WORDS]
    if isinstance(inner, httpx2.HTTPError) and not str(inner):
        return type(inner).__name__
    return safe_text(str(inner) or type(inner).__name__, one_line=True)[:WORDS]


async def open_servers(servers: Mapping[str, McpServerSettings], tell: Tell) -> tuple[Sequence[McpServer], list[Tool]]:
    """The servers, started, and their tools, in the order of the settings. Raises UsageError with the first that cannot
    be used; then all are ended."""
    opened = [McpServer(name, settings, tell) for name, settings in servers.items()]
    try:
        tools = [tool for server in opened for tool in await server.open()]
    except BaseException:
        for server in opened:
            await server.close()
        raise
    return opened, tools

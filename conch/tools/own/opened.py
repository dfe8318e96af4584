"""The tools that a run's agents have, started as a run starts them: for commands that look at tools without a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from conch.config import Masker, Settings, to_install
from conch.errors import BusUnreachableError, ConfigError
from conch.tools.builtin import BUILTIN_TOOLS
from conch.tools.declare import Tool
from conch.tools.device import device_tools
from conch.tools.own.host import ToolFile, open_files
from conch.tools.toolbox import Toolbox


@asynccontextmanager
async def opened_tools(
    settings: Settings, tell: Callable[[str], None], installed: Sequence[Tool] = ()
) -> AsyncIterator[Toolbox]:
    """All tools of these settings, with those of installed packages; files are imported and MCP servers started for the
    time of the block. A device is listed and cannot be called: its bridge belongs to a run.

    `tell` is told what a server leaves out. Raises ConchError, with the sentence that ends a run's start, where a file
    or a server cannot be used or two tools have one name.
    """
    tools = (*BUILTIN_TOOLS, *device_tools(settings.edge.actuators, _no_bridge), *installed)
    toolbox = Toolbox(tools, Masker.of(settings))
    async with AsyncExitStack() as opened:
        files = [ToolFile(file, settings.tools) for file in settings.tools.files]
        for file in files:
            opened.push_async_callback(file.close)
        for tool in (*_web(settings), *await open_files(files), *await _of_servers(settings, tell, opened)):
            toolbox.add(tool)
        yield toolbox


def _web(settings: Settings) -> list[Tool]:
    """The tool `http`. httpx2 is imported for it alone."""
    if not settings.tools.http.allow:
        return []
    from conch.tools.web.fetch import http_tools

    return http_tools(settings.tools.http)


async def _of_servers(settings: Settings, tell: Callable[[str], None], opened: AsyncExitStack) -> list[Tool]:
    if not settings.tools.mcp:
        return []
    try:
        from conch.tools.mcp.server import open_servers
    except ImportError:
        raise ConfigError(f"tools.mcp needs the extra mcp: {to_install('mcp')}") from None
    servers, tools = await open_servers(settings.tools.mcp, tell)
    for server in servers:
        opened.push_async_callback(server.close)
    return tools


async def _no_bridge(subject: str, data: bytes, *, timeout: float) -> bytes:
    raise BusUnreachableError(f"a device is reached by the bridge of a run alone, which {subject} would ask")

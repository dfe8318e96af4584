"""The tools that the settings add, as `conch doctor` shows them: files, MCP servers, and the policy over all tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from conch.config import Settings, to_install
from conch.errors import ConchError, ConfigError, ContractError
from conch.tools import BUILTIN_TOOLS, Toolbox, ToolFile, installed_tools, open_files, unknown_tools
from conch.views.checks import DoctorFinding

if TYPE_CHECKING:
    from conch.tools import McpServer, Tool


async def tool_findings(settings: Settings) -> list[DoctorFinding]:
    """Whether a run can use them: each file is imported and each server started, as a run does, and ended. No finding
    where the settings add no tool and no rule."""
    of = settings.tools
    if not (of.files or of.mcp or of.policy):
        return []
    files = [ToolFile(file, of) for file in of.files]
    servers: Sequence[McpServer] = ()
    told: list[str] = []
    toolbox = Toolbox(BUILTIN_TOOLS)
    registered = [tool.name for tool in installed_tools().tools]
    try:
        own = await open_files(files)
        servers, served = await _of_servers(settings, told)
        for tool in (*own, *served):
            toolbox.add(tool)
            if tool.spec.name in registered:
                raise ContractError(f"there are two tools {tool.spec.name}: give one of them another name")
    except ConchError as error:
        return [DoctorFinding("tools", "problem", str(error), "a run is refused until that is mended")]
    finally:
        for file in files:
            await file.close()
        for server in servers:
            await server.close()
    told += unknown_tools(of.policy, [*toolbox.registry.names, *registered])
    if told:
        return [DoctorFinding("tools", "warning", why, "a run begins all the same: mend conch.yaml") for why in told]
    return [DoctorFinding("tools", "ok", f"{len(own) + len(served)} of your own, {len(of.policy)} rules of the policy")]


async def _of_servers(settings: Settings, told: list[str]) -> tuple[Sequence[McpServer], list[Tool]]:
    if not settings.tools.mcp:
        return (), []
    try:
        from conch.tools import open_servers
    except ImportError:
        raise ConfigError(f"tools.mcp needs the extra mcp: {to_install('mcp')}") from None
    return await open_servers(settings.tools.mcp, told.append)

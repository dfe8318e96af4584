"""The settings of MCP servers, whose tools the agent gets."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from conch.config.model.section import SettingsSection
from conch_schemas import Effect

MOST_SERVERS = 16
"""Most MCP servers: each is a process or a connection, and its tools are in every prompt."""
McpName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,19}$")]
"""Small letters, digits, underscore; the tools' names begin with it."""


class McpToolSettings(SettingsSection):
    """A tool of an MCP server; what is not named is as for the server."""

    effects: Effect | None = None
    """What it may change: read, workspace or world."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that one call may take."""
    output_kib: Annotated[int, Field(gt=0)] | None = None
    """KiB of text that one call may return."""


class McpServerSettings(SettingsSection):
    """An MCP server: a program, or an address."""

    command: tuple[str, ...] = ()
    """Program and arguments of a server that speaks over stdin and stdout; it runs outside of the sandbox."""
    url: Annotated[str, Field(pattern=r"^https?://[^\s@]+$")] | None = None
    """Address of a server that speaks streamable HTTP, in place of `command`."""
    env: dict[str, SecretStr] = Field(default_factory=dict)
    """Variables that its program gets, beside those of a plug-in."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Headers of the requests to `url`, such as Authorization."""
    effects: Effect | None = None
    """What its tools may change: read, workspace or world; none: nothing is declared, and both are assumed."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that one call of its tools may take, and its start."""
    output_kib: Annotated[int, Field(gt=0)] = 1024
    """KiB of text that one call may return; a message from the server may have twice as many."""
    tools: dict[str, McpToolSettings] = Field(default_factory=dict)
    """The tools that the agent gets, by the server's names for them: {read_file: {effects: read}}; none: all."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("an MCP server has either a command or a url: give one of the two")
        return self


McpServers = Annotated[dict[McpName, McpServerSettings], Field(max_length=MOST_SERVERS)]

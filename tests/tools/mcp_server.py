"""A small MCP server of the tests: `python mcp_server.py [PORT]`, on stdin and stdout without a port."""

from __future__ import annotations

import os
import sys
import time
from typing import Literal

from mcp.server.mcpserver import Context, Image, MCPServer

server = MCPServer("small")


@server.tool()
def add(one: int, other: int = 1, way: Literal["up", "down"] = "up") -> str:
    """Adds numbers.

    A second line."""
    return str(one + other if way == "up" else one - other)


@server.tool(structured_output=False)
def picture() -> list[object]:
    """Draws."""
    return ["a caption", Image(data=b"\x89PNG" * 100, format="png")]


@server.tool()
def fails() -> str:
    """Fails."""
    raise ValueError("it is too late")


@server.tool()
def dies() -> str:
    """Dies."""
    os._exit(7)


@server.tool()
def sleeps() -> str:
    """Sleeps."""
    time.sleep(600)
    return ""


@server.tool()
def large(kib: int) -> str:
    """Returns so many KiB."""
    return "x" * kib * 1024


@server.tool()
async def floods(context: Context) -> str:
    """Sends without end."""
    while True:
        await context.info("more and more")


@server.tool()
async def changes(context: Context) -> str:
    """Takes another argument from now on."""
    server.remove_tool("add")

    @server.tool()
    def add(one: int, other: int, third: int) -> str:
        """Adds three numbers."""
        return str(one + other + third)

    await context.session.send_tool_list_changed()
    return "changed"


@server.tool()
def odd(value: int | str) -> str:
    """Takes one of two types."""
    return str(value)


if __name__ == "__main__":
    print("started", os.environ.get("GREETING", ""), file=sys.stderr, flush=True)
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()

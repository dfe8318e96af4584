"""Tools of MCP servers: a real server, over stdin and stdout and over HTTP."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psutil
import pytest

from conch.config import McpServerSettings, ToolSettings
from conch.errors import UsageError
from conch.tools import McpServer, Notes, Sandbox, Toolbox, ToolContext, open_servers
from conch_schemas import Action, Outcome

if TYPE_CHECKING:
    from tests.conftest import Until

SERVER = Path(__file__).with_name("mcp_server.py")
START = [sys.executable, str(SERVER)]


class Tools:
    """The tools of the servers in a toolbox, what was told of the servers, and a call of a tool."""

    def __init__(self, servers: list[McpServer], toolbox: Toolbox, context: ToolContext, told: list[str]) -> None:
        self.servers, self.toolbox, self._context, self.told = servers, toolbox, context, told

    async def __call__(self, name: str, **args: Any) -> Outcome:
        return await self.toolbox.run(Action(kind="TOOL", valid=True, tool=name, args=args), self._context)


Make = Callable[..., Awaitable[Tools]]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """`await make(command=…)`: the tools of a server `small` with these settings."""
    opened: list[McpServer] = []
    notes, own = Notes(tmp_path / "notes.db"), ToolSettings(sandbox="off", timeout=20)

    async def made(**settings: Any) -> Tools:
        told: list[str] = []
        plain = {} if "url" in settings or "command" in settings else {"command": START}
        servers, tools = await open_servers({"small": McpServerSettings.model_validate(plain | settings)}, told.append)
        opened.extend(servers)
        toolbox = Toolbox(())
        for tool in tools:
            toolbox.add(tool)
        return Tools(list(servers), toolbox, ToolContext(tmp_path, Sandbox(own), notes, own), told)

    yield made
    for server in opened:
        await server.close()
    notes.close()


async def test_the_tools_of_a_server_are_the_agents(make: Make) -> None:
    """With the server's name before theirs, their arguments and their effects; a failure is an error."""
    tools = await make(effects="world", tools={"add": {"effects": "read"}, "fails": {}})
    add = tools.toolbox.registry["small_add"]

    assert tools.toolbox.registry.names == ("small_add", "small_fails")
    assert add.describe() == "- small_add(one: integer, other?: integer, way?: up|down): Adds numbers. A second line."
    assert (add.effect({}), tools.toolbox.registry["small_fails"].effect({})) == ("read", "world")
    assert (await tools("small_add", one=40, other=2)).output.text == "42"
    assert (await tools("small_add", one="40")).error == "the argument one must be an integer, not a string"
    failed = await tools("small_fails")
    assert (failed.status, "fails" in (failed.error or "")) == ("error", True)


async def test_an_argument_that_a_reply_cannot_hold_leaves_its_tool_out(make: Make) -> None:
    """One sentence says so; the others are there."""
    tools = await make()

    assert "small_odd" not in tools.toolbox.registry
    assert tools.told == [
        "the tool odd of the MCP server small is left out: it needs the argument 'value', which a reply cannot hold: "
        "it may be of the types integer and string"
    ]


async def test_an_image_is_named_and_left_out(make: Make) -> None:
    """The text beside it is the output."""
    outcome = await (await make())("small_picture")

    assert outcome.status == "success"
    caption, image = outcome.output.text.split("\n")
    assert caption == "a caption"
    assert image == "[an image (image/png, 400 bytes), which cannot be shown here, is left out]"


async def test_a_server_that_dies_is_started_again_and_that_is_said(make: Make, until: Until) -> None:
    """The call says why; a call meanwhile is refused; then the tools work again."""
    tools = await make(tools={"add": {}, "dies": {}})
    died = await tools("small_dies")
    meanwhile = await tools("small_add", one=1)
    await until(lambda: "the MCP server small is up again" in tools.told)

    why = "it ended its process (status 7), its last line: started"
    assert (died.status, died.error) == ("error", f"the MCP server small is gone: {why}")
    assert (meanwhile.error or "").startswith("the MCP server small is")
    assert tools.told[0].startswith(f"the MCP server small is gone ({why}); it is started again")
    assert (await tools("small_add", one=1)).output.text == "2"


async def test_a_call_that_takes_too_long_is_a_timeout(make: Make) -> None:
    """Of the tool's own time; the server's other tools go on once it is free."""
    outcome = await (await make(tools={"sleeps": {"timeout": 0.5}}))("small_sleeps")

    assert (outcome.status, outcome.error) == ("timeout", "small_sleeps took longer than 0.5 seconds")


async def test_a_result_that_is_too_large_is_cut(make: Make) -> None:
    """Beyond the tool's cap it is an error with the beginning; beyond the server's, the server is started again."""
    tools = await make(output_kib=64, tools={"large": {"output_kib": 1}, "add": {}})
    cut = await tools("small_large", kib=2)
    flood = await tools("small_large", kib=4000)

    assert (cut.status, cut.error) == ("error", "small_large returned 2 KiB, more than 1 (output_kib)")
    assert cut.output.text == "x" * 1024
    assert flood.error == "the MCP server small is gone: it sent a message that is longer than output_kib allows"


async def test_a_server_that_floods_is_ended(make: Make, until: Until) -> None:
    """The call says so, and the agent goes on; the server is started again."""
    tools = await make(tools={"floods": {}, "add": {}})
    outcome = await tools("small_floods")
    await until(lambda: "the MCP server small is up again" in tools.told)

    assert outcome.error == "the MCP server small is gone: it sent more than 1000 messages in 1 s"


async def test_a_tool_that_changes_in_the_middle_is_not_called(make: Make, until: Until) -> None:
    """The mind knows the signature of the start: a call of the other one is refused, and the change is said once."""
    tools = await make(tools={"add": {}, "changes": {}})
    await tools("small_changes")
    await until(lambda: tools.told)
    refused = await tools("small_add", one=1, other=2)

    assert tools.told == ["the MCP server small has changed its tool add: it is not called"]
    assert refused.error == ("the MCP server small has changed add since the run began: the next run takes it as it is")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"command": ["/nowhere/at-all"]}, "the MCP server small cannot be used: .*(tools.mcp.small)"),
        ({"command": [sys.executable, "-c", "raise SystemExit(3)"]}, "it ended its process"),
        (
            {"command": [sys.executable, "-c", "import time; time.sleep(99)"], "timeout": 1},
            "does not answer within 1 s",
        ),
        ({"command": START, "tools": {"subtract": {}}}, "it has no usable tool 'subtract', there are none"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be used"),
    ],
)
async def test_a_server_that_cannot_be_used_is_one_sentence(make: Make, settings: dict[str, Any], says: str) -> None:
    """At the start, with the setting that names it; no process is left behind."""
    with pytest.raises(UsageError, match=says):
        await make(**settings)


async def test_its_process_ends_with_the_agents_and_has_no_secret(
    make: Make, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """It gets the variables that the settings name, and none that looks like a secret."""
    monkeypatch.setenv("SOME_API_KEY", "sk-1")
    tools = await make(env={"GREETING": "hello"}, tools={"add": {}})
    mine = [one for one in psutil.Process().children(recursive=True) if str(SERVER) in " ".join(one.cmdline())]
    environments = [one.environ() for one in mine]
    await tools.servers[0].close()

    assert environments
    assert all(one["GREETING"] == "hello" and "SOME_API_KEY" not in one for one in environments)
    await until(lambda: not any(one.is_running() and one.status() != "zombie" for one in mine))


@pytest.fixture
def address() -> Iterator[str]:
    """A server over HTTP on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*START, str(port)], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def test_a_server_over_http(make: Make, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamable HTTP, past any proxy that the environment names."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    tools = await make(url=address, tools={"add": {}, "large": {"output_kib": 1}})

    assert (await tools("small_add", one=40, other=2)).output.text == "42"
    assert (await tools("small_large", kib=2)).error == "small_large returned 2 KiB, more than 1 (output_kib)"


async def test_the_reference_server_for_files(
    make: Make, tmp_path: Path, lacking: Callable[[str], NoReturn], until: Until
) -> None:
    """`@modelcontextprotocol/server-filesystem` from npm: it lists, writes and reads, and its refusal is an error."""
    if (npm := shutil.which("npm")) is None:
        lacking("npm is not installed: the reference MCP server is not tried")
    place = Path(os.environ.get("XDG_CACHE_HOME", tmp_path)) / "mcp-server-filesystem"
    place.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--silent", "--no-fund", "--no-audit", "@modelcontextprotocol/server-filesystem"]
    done = await asyncio.to_thread(subprocess.run, command, cwd=place, capture_output=True, timeout=240)
    program = place / "node_modules" / ".bin" / "mcp-server-filesystem"
    if done.returncode or not program.exists():
        lacking("npm cannot install the reference MCP server here: it is not tried")
    files = tmp_path / "files"
    files.mkdir()
    names = ("write_file", "read_text_file", "list_directory")
    tools = await make(command=[str(program), str(files)], tools={name: {} for name in names})

    assert tools.toolbox.registry.names == ("small_read_text_file", "small_write_file", "small_list_directory")
    assert (await tools("small_write_file", path=str(files / "a.txt"), content="hello")).status == "success"
    assert (files / "a.txt").read_text() == "hello"
    assert (await tools("small_read_text_file", path=str(files / "a.txt"))).output.text == "hello"
    refused = await tools("small_read_text_file", path="/etc/passwd")
    assert (refused.status, "outside allowed directories" in (refused.error or "")) == ("error", True)

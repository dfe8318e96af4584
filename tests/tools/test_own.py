"""Tools of a person's own file: declared by `@tool`, run in a process of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from structlog.testing import capture_logs

from conch.actions import json_schema
from conch.config import ToolSettings
from conch.errors import ContractError, UsageError
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, ToolContext, ToolFile, open_files
from conch_schemas import Action, Outcome

if TYPE_CHECKING:
    from tests.conftest import Until

HEAD = "import os, sys, time\nfrom typing import Literal\nfrom conch import tool\n"
WEATHER = '''
@tool(effects="read")
def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """The weather in a city.

    city: its name
    """
    print("asked for", city)
    return f"rain in {city}, 7 {unit}"
'''
Run = Callable[..., Awaitable[Outcome]]
Make = Callable[..., Awaitable["Tools"]]


class Tools:
    """The tools of one file in a toolbox, and a call of one."""

    def __init__(self, file: ToolFile, toolbox: Toolbox, context: ToolContext) -> None:
        self.file, self.toolbox, self._context = file, toolbox, context

    async def __call__(self, name: str, **args: Any) -> Outcome:
        return await self.toolbox.run(Action(kind="TOOL", valid=True, tool=name, args=args), self._context)


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """`await make(text, **settings)`: the tools of a file with this text."""
    files: list[ToolFile] = []
    notes = Notes(tmp_path / "notes.db")

    async def made(text: str, name: str = "mine.py", **settings: Any) -> Tools:
        path, workspace = tmp_path / name, tmp_path / "workspace"
        path.write_text(HEAD + text)
        workspace.mkdir(exist_ok=True)
        own = ToolSettings(sandbox="off", **settings)
        files.append(ToolFile(str(path), own))
        toolbox = Toolbox(BUILTIN_TOOLS)
        for tool in await open_files(files[-1:]):
            toolbox.add(tool)
        return Tools(files[-1], toolbox, ToolContext(workspace, Sandbox(own), notes, own))

    yield made
    for file in files:
        await file.close()
    notes.close()


async def test_a_function_is_a_tool(make: Make) -> None:
    """Its name, its docstring, its parameters and its effects are what the mind and every constraint get."""
    tools = await make(WEATHER)
    spec = tools.toolbox.registry["weather"]
    with capture_logs() as lines:
        outcome = await tools("weather", city="Rome")
        for _ in range(100):
            await asyncio.sleep(0.01)
            if lines:
                break

    assert spec.describe() == "- weather(city: string, unit?: C|F): The weather in a city.\n    city: its name"
    assert spec.effect({}) == "read"
    assert '"weather"' in json.dumps(json_schema(tools.toolbox.registry))
    assert (outcome.status, outcome.output.text) == ("success", "rain in Rome, 7 C")
    assert [(line["event"], line["said"].strip()) for line in lines] == [("tool.printed", "asked for Rome")]
    assert (await tools("weather", city=3)).error == "the argument city must be a string, not an integer"


async def test_a_tool_that_hangs_is_ended_and_the_next_call_has_a_new_process(make: Make, until: Until) -> None:
    """The outcome is `timeout`; what it started ends with it."""
    tools = await make(
        "import subprocess\n@tool\ndef hangs() -> str:\n    '''Hangs.'''\n"
        "    subprocess.Popen(['sleep', '4711'])\n    time.sleep(600)\n" + WEATHER,
        timeout=4.0,
    )
    outcome = await tools("hangs")

    assert (outcome.status, outcome.error) == ("timeout", "hangs took longer than 4 seconds")
    await until(
        lambda: not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "4711"]]
    )
    assert (await tools("weather", city="Rome")).status == "success"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise KeyError('x')", "odd failed: KeyError: 'x' (mine.py, line 7)"),
        ("os._exit(3)", "odd failed: the tool ended its process (status 3)"),
        ("sys.exit(3)", "odd failed: SystemExit: 3 (mine.py, line 7)"),
        ("os.kill(os.getpid(), 9)", "odd failed: the tool ended its process (signal SIGKILL)"),
        ("return 7", "odd failed: TypeError: returned int, not text"),
        ("return 'x' * 5000", "odd returned 4 KiB, more than 1 (tools.output_kib)"),
        ("bytearray(2**31)", "odd failed: MemoryError"),
    ],
)
async def test_what_goes_wrong_is_the_outcome(make: Make, body: str, says: str) -> None:
    """One sentence each, and the file's other tools go on."""
    tools = await make(f"@tool\ndef odd() -> str:\n    '''Odd.'''\n    {body}\n" + WEATHER, output_kib=1)
    outcome = await tools("odd")

    assert outcome.status == "error"
    assert (outcome.error or "").startswith(says)
    assert (await tools("weather", city="Rome")).status == "success"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import nowhere\n", "ModuleNotFoundError: No module named 'nowhere' (mine.py, line 4)"),
        ("x = 1\n", "it declares no @tool"),
        ("@tool\ndef f(x) -> str:\n    '''F.'''\n", "the argument x of the tool f has no type that a reply can hold"),
        ("from conch.tools import ToolContext\n@tool\ndef f(c: ToolContext) -> str:\n    '''F.'''\n", "ToolContext"),
        ("@tool(effects='all')\ndef f() -> str:\n    '''F.'''\n", "the effect 'all'"),
        ("os._exit(1)\n", "ended its process (status 1)"),
    ],
)
async def test_a_broken_file_is_one_sentence(make: Make, text: str, says: str) -> None:
    """It names the file, what is wrong with it, and the setting."""
    with pytest.raises((UsageError, ContractError)) as refused:
        await make(text)

    assert says in str(refused.value)


@pytest.mark.parametrize(("name", "says"), [("absent.py", "No such file"), ("tools.txt", "no Python file")])
async def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, name: str, says: str) -> None:
    """A missing one, and one that is no Python."""
    (tmp_path / "tools.txt").write_text("hello")
    with pytest.raises(UsageError, match=says):
        await ToolFile(str(tmp_path / name), ToolSettings()).open()


async def test_no_tool_takes_the_name_of_another(make: Make) -> None:
    """Of one that comes with Conch, of one of the same file."""
    with pytest.raises(ContractError, match="there are two tools shell"):
        await make("@tool\ndef shell() -> str:\n    '''S.'''\n    return ''\n")

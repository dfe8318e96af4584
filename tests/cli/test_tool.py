"""`conch tool list` and `conch tool test`: what the agent has, and one call as the agent would make it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.common import CommonOptions
from conch.cli.tool import list_
from conch.cli.tool import try_ as call
from conch.errors import CheckError, ConchError, ContractError, ToolError, UsageError
from conch.tools import BUILT_IN, name_taken

if TYPE_CHECKING:
    from conch.home import Home

Printed = Callable[[], str]
OWN = """
from conch import tool


@tool(effects="world")
def launch(count: int) -> str:
    '''Launches.'''
    if count > 3:
        raise ValueError("too many")
    return f"launched {count}\\x1b[2J"
"""
POLICY = """
    - {tool: filesystem, path: secrets, do: deny, because: Keys are mine.}
    - {tool: git, operation: push, do: ask}
    - {tool: shell, do: deny}
"""


@pytest.fixture
def set_up(home: Home, tmp_path: Path) -> Path:
    """A workspace, a file of tools and a policy; the workspace."""
    workspace, own = tmp_path / "work", tmp_path / "own.py"
    workspace.mkdir()
    (workspace / "a.md").write_text("limpets")
    own.write_text(OWN)
    settings = f"workspace: {workspace}\ntools:\n  sandbox: 'off'\n  files: [{own}]\n  policy:{POLICY}"
    (home.path / "conch.yaml").write_text(settings)
    return workspace


@pytest.mark.usefixtures("set_up")
async def test_the_list_says_where_each_tool_comes_from_and_what_it_may_do(
    common: CommonOptions, printed: Printed, tmp_path: Path
) -> None:
    """Source, effects, the rules of the policy in their order, and the time-out."""
    await list_(common=replace(common, json=True))
    tools = {one["name"]: one for one in json.loads(printed())["tools"]}
    await list_(common=common)
    table = printed()

    assert tools["launch"] == {
        "name": "launch", "source": f"file {tmp_path / 'own.py'}", "effects": "world", "policy": "allow",
        "timeout": 10.0,
    }  # fmt: skip
    assert tools["filesystem"]["source"] == "built in"
    assert tools["filesystem"]["effects"]["write"] == "workspace"
    assert {name: tools[name]["policy"] for name in ("filesystem", "git", "shell")} == {
        "filesystem": "deny in secrets, allow", "git": "ask push, allow", "shell": "deny"
    }  # fmt: skip
    assert "deny in secrets, allow" in table
    assert "built in" in table


@pytest.mark.usefixtures("set_up")
async def test_a_call_has_its_outcome_its_effect_and_its_time(common: CommonOptions, printed: Printed) -> None:
    """In the workspace; a number is read as one; output is safe."""
    await call("filesystem", "operation=read", "path=a.md", common=common)
    read = printed()
    await call("launch", "count=2", common=common)
    launched = printed()
    await call("launch", "count=2", common=replace(common, json=True))
    document: dict[str, Any] = json.loads(printed())

    assert read.startswith("success · effect read · ")
    assert "  | limpets" in read
    assert launched.startswith("success · effect world · ")
    assert "launched 2�[2J" in launched
    assert (document["outcome"], document["effect"], document["args"]) == ("success", "world", {"count": 2})
    assert document["ms"] > 0


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("launch", "count=9"), ToolError, "too many"),
        (
            ("filesystem", "operation=read", "path=secrets/key"),
            CheckError,
            "tools.policy (rule 1) denies filesystem.read",
        ),
        (("git", "operation=push"), CheckError, "asks for an approval of git.push; in a pipe nobody is asked"),
        (("shell", "command=rm a.md"), CheckError, "tools.policy (rule 3) denies shell"),
        (("lanch",), UsageError, "there is no tool lanch: the nearest name is launch"),
        (("launch",), UsageError, "launch needs the argument count"),
        (("launch", "count=many"), UsageError, "launch: count must be of type integer, as JSON, not 'many'"),
        (("launch", "count"), UsageError, "the argument count is given without a value"),
        (("launch", "count=1", "count=2"), UsageError, "the argument count is given twice"),
    ],
)
async def test_what_is_not_done_is_a_sentence_and_an_exit_code(
    common: CommonOptions, set_up: Path, arguments: tuple[str, ...], error: type[ConchError], says: str
) -> None:
    """1 for a tool that fails, 2 for no call, 4 for one that is blocked; what is blocked changes nothing."""
    codes = {ToolError: 1, UsageError: 2, CheckError: 4}
    with pytest.raises(error) as refused:
        await call(*arguments, common=common)

    assert says in str(refused.value)
    assert refused.value.exit_code == codes[error]
    assert (set_up / "a.md").read_text() == "limpets"


@pytest.mark.parametrize(("typed", "status"), [("y", "executed"), ("n not now", "a person denied it: not now")])
async def test_a_person_at_a_terminal_is_asked(
    common: CommonOptions, printed: Printed, set_up: Path, monkeypatch: pytest.MonkeyPatch, typed: str, status: str
) -> None:
    """The call is executed, and fails as there is no repository; or it is blocked."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: typed)
    with pytest.raises(ConchError) as refused:
        await call("git", "operation=push", common=common)

    assert isinstance(refused.value, ToolError if status == "executed" else CheckError)
    assert status == "executed" or status in str(refused.value)
    assert "asks for an approval of git.push" in printed()


async def test_two_tools_of_one_name_say_where_each_comes_from(
    common: CommonOptions, home: Home, tmp_path: Path
) -> None:
    """And what to do about the one that is the user's."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(OWN)
    (home.path / "conch.yaml").write_text(f"tools: {{files: [{tmp_path / 'one.py'}, {tmp_path / 'two.py'}]}}")

    with pytest.raises(ContractError) as refused:
        await list_(common=common)

    assert str(refused.value) == (
        f"there are two tools launch, one of the file {tmp_path / 'one.py'} and one of the file {tmp_path / 'two.py'}: "
        "give the function another name"
    )


@pytest.mark.parametrize(
    ("origin", "mend"),
    [
        ("MCP server files", "give the server another name, or leave the tool out of tools.mcp.files.tools"),
        ("entry point conch.tools:mine", "uninstall the package that registers it"),
        ("file /a b/own.py", "give the function another name"),
    ],
)
def test_what_to_do_about_a_name_depends_on_the_source(origin: str, mend: str) -> None:
    """Of whichever of the two is not Conch's own."""
    said = [str(name_taken("shell", *pair)) for pair in ((BUILT_IN, origin), (origin, BUILT_IN))]

    assert all(one.endswith(f": {mend}") and "one that comes with Conch" in one for one in said)

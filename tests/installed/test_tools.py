"""Tools of installed packages: tried in a process of their own, set aside with a sentence where they do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conch.actions import parse
from conch.config import ToolSettings
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, ToolContext, installed_tools, load_tools
from conch_schemas import Outcome
from tests.packages import MIND, Install

POINT = "[conch.tools]\ndice = oracle_plugin:dice\n"
HEAD = "import asyncio, time\nfrom conch.tools import ToolContext, ToolResult, tool\n"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    settings = ToolSettings(sandbox="off", timeout=0.2)
    with Notes(tmp_path / "notes.db") as notes:
        yield ToolContext(tmp_path, Sandbox(settings), notes, settings)


async def outcome(reply: str, context: ToolContext) -> Outcome:
    """Of a reply, by an agent with the installed tools."""
    toolbox = Toolbox((*BUILTIN_TOOLS, *load_tools(installed_tools().points)))
    action = parse(reply, toolbox.registry)
    assert action.valid, action.reason
    return await toolbox.run(action, context)


async def test_a_tool_of_a_package_is_one_of_the_agents(install: Install, context: ToolContext) -> None:
    """With its signature, its description and the effect that it declares, as a built-in one."""
    install(POINT, MIND)
    found = installed_tools()

    assert [(tool.name, tool.origin, tool.described) for tool in found.tools] == [
        ("dice", "conch.tools:dice", "- dice(sides: integer): Throw a dice.\n    sides: how many sides it has")
    ]
    assert found.set_aside == ()
    [tool] = load_tools(found.points)
    assert tool.spec.effect({"sides": 6}) == "read"
    done = await outcome("TOOL: dice(sides=6)", context)
    assert (done.status, done.output.text) == ("success", "6 of 6")


async def test_a_module_of_tools_declares_effects_by_operation(install: Install) -> None:
    """One entry point may name a module, whose tools come together."""
    two = HEAD + (
        "from typing import Literal\n"
        '@tool(effects={"look": "read", "open": "world"})\n'
        'def door(operation: Literal["look", "open"]) -> str:\n    """A door."""\n    return operation\n'
        '@tool\ndef bell() -> str:\n    """A bell."""\n    return "ding"\n'
    )
    install("[conch.tools]\nhouse = oracle_plugin\n", two)

    door, bell = load_tools(installed_tools().points)

    assert [door.spec.effect({"operation": each}) for each in ("look", "open")] == ["read", "world"]
    assert bell.spec.effect({}) is None


ASIDE = {
    "an import that raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "an import that ends its process": ("import os; os._exit(7)", "ended its process with status 7"),
    "no tool": ("def dice(): ...\n", "is no tool: decorate a function with conch.tools.tool"),
    "an argument without a type": (HEAD + "@tool\ndef dice(sides) -> str: ...\n", "has no type that a reply can hold"),
    "an effect that there is not": (
        HEAD + '@tool(effects="none")\ndef dice() -> str: ...\n',
        "declares the effect 'none'",
    ),
    "a name of Conch's": (
        HEAD + "@tool\ndef shell() -> str: ...\ndice = shell\n",
        "the name 'shell' is taken by a tool of Conch",
    ),
    "a name that no reply can hold": (HEAD + "@tool\ndef Dice() -> str: ...\ndice = Dice\n", "cannot be called 'Dice'"),
}


@pytest.mark.parametrize("case", ASIDE)
def test_a_tool_that_does_not_fit_is_set_aside(install: Install, case: str) -> None:
    """With one sentence; the other packages' tools are there."""
    module, sentence = ASIDE[case]
    install(POINT, module)
    install("[conch.tools]\nbell = second_plugin:bell\n", HEAD + "@tool\ndef bell() -> str: ...\n", "second_plugin")

    found = installed_tools()

    [(origin, why)] = found.set_aside
    assert origin == "conch.tools:dice"
    assert sentence in why
    assert "\n" not in why
    assert [tool.name for tool in found.tools] == ["bell"]


def test_of_two_tools_of_one_name_the_later_is_set_aside(install: Install) -> None:
    """It names the one that has it; of two entry points of one name none is taken by chance."""
    install("[conch.tools]\nfirst = oracle_plugin:dice\nagain = oracle_plugin:dice\n", MIND)

    found = installed_tools()

    [(origin, why)] = found.set_aside
    assert why == f"the name 'dice' is taken by {found.tools[0].origin}: give the tool another name"
    assert {origin, found.tools[0].origin} == {"conch.tools:first", "conch.tools:again"}


def test_two_packages_with_one_entry_point_are_both_set_aside(install: Install) -> None:
    """Until one of them is uninstalled."""
    install(POINT, MIND)
    install("[conch.tools]\ndice = second_plugin:dice\n", MIND, "second_plugin")

    found = installed_tools()

    assert found.tools == ()
    assert found.set_aside == (("conch.tools:dice", "two installed packages register it: uninstall one"),)


LIMITS = {
    "that raises": ("raise KeyError('lost')", "error", "dice failed: KeyError: 'lost'"),
    "that takes too long": ("await asyncio.Event().wait()", "timeout", "dice took longer than 0.2 seconds"),
    "that gives no text": ("return 3", "error", "dice returned int, not text"),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_a_tool_runs_under_the_limits_of_the_others(install: Install, context: ToolContext, case: str) -> None:
    """Its time is that of the settings, and whatever it does is an outcome."""
    line, status, error = LIMITS[case]
    install(POINT, HEAD + f"@tool\nasync def dice() -> str:\n    {line}\n")

    done = await outcome("TOOL: dice()", context)

    assert (done.status, done.error) == (status, error)


async def test_the_output_of_a_tool_is_cut(install: Install, context: ToolContext) -> None:
    """Of 10 MB head and tail are kept, with the length of the whole."""
    install(POINT, HEAD + "@tool\ndef dice() -> str:\n    return 'x' * 10_000_000\n")

    done = await outcome("TOOL: dice()", context)

    assert done.output.length == 10_000_000
    assert len(done.output.text) < 100_000


def test_a_package_that_broke_since_its_trial_is_left_out(install: Install) -> None:
    """The agent begins without its tools."""
    folder = install(POINT, MIND)
    points = installed_tools().points
    (folder / "oracle_plugin.py").write_text("1 / 0")

    assert load_tools(points) == ()

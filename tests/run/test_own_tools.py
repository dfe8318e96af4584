"""Tools of a person's own file in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House

TOOLS = '''from conch import tool

@tool(effects="read")
def add(one: int, other: int) -> str:
    """Adds two numbers."""
    return str(one + other)
'''


def test_a_tool_of_a_file_is_called_by_the_mind(house: House) -> None:
    """It runs in its own process, which is gone when the run has ended."""
    file = house.directory / "mine.py"
    file.write_text(TOOLS)
    live = house.run("--tools", str(file), "--cycles", "1", "--script", house.script("TOOL: add(one=2, other=40)"))
    [row] = live.rows

    assert row["outcome"] == "success"
    assert "42" in house.conch("cycle", "show", str(row["cycle"]), "--json")
    house.assert_nothing_runs()


def test_a_broken_file_of_tools_ends_the_start_with_one_sentence(house: House) -> None:
    """It names the file and what is wrong; a file that the agent may change is refused before anything starts."""
    file = house.directory / "mine.py"
    file.write_text("import nowhere\n")
    broken = house.refused("run", "--workspace", str(house.workspace), "--tools", str(file), status=2)
    inside = house.workspace / "mine.py"
    inside.write_text(TOOLS)
    refused = house.refused("run", "--workspace", str(house.workspace), "--tools", str(inside), status=2)

    assert f"the tools of {file} cannot be used: ModuleNotFoundError: No module named 'nowhere'" in broken
    assert f"the tools file {inside} lies in the workspace" in refused


def test_a_rule_of_the_policy_about_no_tool_is_told_at_the_start(house: House) -> None:
    """A misspelt `deny` denies nothing: the person reads that when the run begins."""
    policy = '[{"tool": "shel", "do": "deny"}]'
    live = house.run("--cycles", "1", "--script", house.script("DO_NOTHING"), CONCH_TOOLS__POLICY=policy)

    assert "tools.policy (rule 1) fits no tool: there is no shel; the nearest name is shell" in live.said

"""The tool `goal`: which proposals an agent may make, and which are refused with the reason."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import ToolError
from conch.tools import ToolContext, goal_of_call, implied_act
from conch.tools.proposals.refusal import objection_to, path_outside
from conch_schemas import Action, CommandCheck, FileCheck, TestsCheck

if TYPE_CHECKING:
    from tests.tools.conftest import Act

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TIDE = 'TOOL: goal(operation="file", statement="Note the tide.", path="tide.md", contains=["high", "low"])'


def call(**args: Any) -> dict[str, Any]:
    return {"operation": "command", "statement": "Make x.", "command": "test -f x"} | args


async def test_a_proposal_names_the_goal_and_how_far_it_is(act: Act, context: ToolContext) -> None:
    """The outcome has the goal's id, which the same call has again, and what the check says now."""
    (context.workspace / "tide.md").write_text("high at six")

    first, again = await act(TIDE), await act(TIDE)

    assert (first.status, first.proposed) == ("success", again.proposed)
    assert first.proposed is not None
    assert first.proposed.startswith("note-the-tide-")
    assert first.output.text == f"the goal {first.proposed} is set; its check says: 1 of 2 conditions on tide.md hold"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('operation="command", statement="s", command="test -d ."', "its check holds already: exit status 0"),
        ('operation="command", statement="s", command="make; true"', "ends with 'true'"),
        ('operation="file", statement="s", path="there.md"', "needs contains or equals"),
        ('operation="file", statement="s", path="there.md", contains=["a", " "]', "is empty: every file has that"),
        ('operation="file", statement="s", path="new.md", equals=""', "is empty: every file has that"),
        ('operation="file", statement="s", path="there.md", contains=["tide"]', "holds already: 1 of 1"),
        ('operation="file", statement="s", path=".", contains=["a"]', "needs its path"),
        ('operation="file", statement="s", path="link", contains=["a"]', "cannot be run: link is a symbolic link"),
        ('operation="file", statement="s", command="ls"', "command goes with the operations command and tests"),
        ('operation="command", statement="s", command="ls", path="x"', "path goes with the operation file"),
        ('operation="tests", statement="s"', "the operation tests needs command"),
        ('operation="command", statement="s", command="  "', "needs a command"),
        ('operation="command", statement=" ", command="test -f x"', "statement: "),
        ('operation="command", statement="s", command="test -f x", priority=2', "priority: "),
        ('operation="command", statement="s", command="test -f x", hours=0', "hours must be above 0"),
        ('operation="file", statement="s", path="x", contains=[1]', "contains must be a list"),
    ],
)
async def test_a_check_that_decides_nothing_is_refused(act: Act, context: ToolContext, said: str, why: str) -> None:
    """A check that holds already, that holds everywhere, or that describes none: the reason is one sentence."""
    (context.workspace / "there.md").write_text("the tide")
    (context.workspace / "link").symlink_to("there.md")

    outcome = await act(f"TOOL: goal({said})")

    assert (outcome.status, outcome.proposed) == ("error", None)
    assert why in (outcome.error or "")


@pytest.mark.parametrize(
    "said",
    [
        'operation="file", path="../out", contains=["a"]',
        'operation="file", path="/etc/passwd", contains=["a"]',
        'operation="file", path="a/../../b", contains=["a"]',
        'operation="command", command="grep -q root /etc/passwd"',
        'operation="command", command="sh -c \'cat ../../secret\'"',
        'operation="tests", command="cd ~ && python3 -m unittest"',
        'operation="command", command="/usr/../etc/x"',
    ],
)
async def test_a_check_of_a_path_outside_is_blocked(act: Act, said: str) -> None:
    """It is blocked like any act on such a path, and its command is not run."""
    outcome = await act(f'TOOL: goal(statement="s", {said})')

    assert (outcome.status, outcome.proposed) == ("blocked", None)
    assert "paths inside the workspace" in (outcome.error or "")


async def test_a_refusal_of_the_agent_comes_before_the_check_is_run(context: ToolContext, act: Act) -> None:
    """What the agent objects to is refused without a program being run."""
    refusing = replace(context, goal_objection=lambda goal: f"there are enough like {goal.statement}")

    outcome = await act('TOOL: goal(operation="command", statement="s", command="touch ran && test -f x")', refusing)

    assert outcome.error == "the goal is refused: there are enough like s"
    assert list(context.workspace.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "is_constant"),
    [
        *(("true", True), (":", True), ("x || true", True), ("x; true", True), ("x | echo ok", True), ("exit 3", True)),
        *(("x && false", True), ("! true", True), ("x && true", False), ("x || exit 1", False), ("test -f x", False)),
        *(("x\nexit 0", True), ("grep -q true x", False), ("x && echo ok", False)),
    ],
)
def test_a_command_whose_status_says_nothing_is_known_by_its_end(command: str, is_constant: bool) -> None:
    """The last command alone decides it, and always in the same way."""
    assert (objection_to(CommandCheck(command=command)) is not None) == is_constant


@pytest.mark.parametrize("command", ["cat a/../b > /dev/null", "/usr/bin/env python3 -m unittest", "sed -n s/a/b/p x"])
def test_a_command_may_name_programs_and_what_is_inside(command: str) -> None:
    """System programs, /dev/null and paths that stay inside are no reason to refuse."""
    assert path_outside(TestsCheck(command=command)) is None


@given(st.text(min_size=1, max_size=40))
def test_no_path_above_the_workspace_gets_through(name: str) -> None:
    """However it goes on, a path that begins above the workspace or at the root is outside."""
    assert path_outside(FileCheck(path=f"/{name}")) is not None
    assert path_outside(FileCheck(path="../" * (name.count("/") + 1) + name)) is not None


def test_the_id_is_of_statement_and_check_alone() -> None:
    """Another deadline or priority is the same goal; another check or statement is another one."""
    first = goal_of_call(call(hours=2, priority=0.9, parent="p"), NOW)

    assert first.id == goal_of_call(call(), NOW + timedelta(days=1)).id
    assert (first.deadline, first.priority, first.parent) == (NOW + timedelta(hours=2), 0.9, "p")
    assert len({first.id, goal_of_call(call(command="ls x"), NOW).id, goal_of_call(call(statement="t"), NOW).id}) == 3


@given(
    st.fixed_dictionaries(
        {"operation": st.sampled_from(["command", "file", "tests"]), "statement": st.text(max_size=30)},
        optional={
            name: st.one_of(st.text(max_size=20), st.floats(), st.none(), st.lists(st.text(max_size=5)))
            for name in ("command", "path", "contains", "equals", "hours", "priority", "parent")
        },
    )
)
def test_any_call_is_a_goal_or_refused_in_a_sentence(args: dict[str, Any]) -> None:
    """Whatever a reply holds, there is a goal of the same id each time, or a ToolError."""
    with contextlib.suppress(ToolError):
        assert goal_of_call(args, NOW).id == goal_of_call(args, NOW + timedelta(hours=1)).id


def test_a_proposal_stands_for_the_act_of_its_check() -> None:
    """A command is one of the shell, a file is read; any other act stands for itself."""
    run = implied_act(Action(kind="TOOL", valid=True, tool="goal", args=call()))
    read = implied_act(Action(kind="TOOL", valid=True, tool="goal", args=call(operation="file", path="x")))

    assert run is not None
    assert (run.skill, run.args) == ("shell", {"command": "test -f x"})
    assert read is not None
    assert (read.skill, read.args["path"]) == ("filesystem.read", "x")
    assert implied_act(Action(kind="TOOL", valid=True, tool="shell", args={"command": "ls"})) is None

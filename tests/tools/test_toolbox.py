"""Tools from typed functions, and how one is used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from conch.actions import Argument, parse
from conch.errors import ContractError, ToolError
from conch.secrets import HIDDEN
from conch.tools import BUILTIN_TOOLS, Sandbox, Tool, Toolbox, ToolContext, tool
from conch.tools.toolbox import MASKED
from conch_schemas import Action, Outcome
from tests.bubblewraps import MakeBubblewraps

Act = Callable[..., Awaitable[Outcome]]


def action(called: str, /, **args: object) -> Action:
    return Action.model_validate({"kind": "TOOL", "valid": True, "tool": called, "args": args})


async def use(made: Tool, context: ToolContext, /, **args: object) -> Outcome:
    return await Toolbox([made]).run(action(made.spec.name, **args), context)


def test_a_function_says_what_its_tool_is() -> None:
    """Name, doc, types, choices and what may be left out come from the function alone."""

    @tool
    def bake(
        context: ToolContext, n: int, kind: Literal["bread", "cake"], hot: bool = False, why: str | None = None
    ) -> str:
        """Bakes something.

        n: how many
        """
        return ""

    assert (bake.spec.name, bake.spec.doc) == ("bake", "Bakes something.")
    assert bake.spec.arguments == (
        Argument("n", "integer", True, (), "how many"),
        Argument("kind", "string", True, ("bread", "cake")),
        Argument("hot", "boolean", False),
        Argument("why", "string", False),
    )


def test_a_signature_that_no_reply_can_fill_is_refused() -> None:
    """No annotation, a type that JSON does not have, a variable number: a contract broken, and by which argument."""

    def bare(x): ...

    def odd(x: Path) -> str: ...

    def many(*x: str) -> str: ...

    for function in (bare, odd, many):
        with pytest.raises(ContractError, match="x"):
            tool(function)


def test_a_tool_declares_its_effects_where_it_is_declared() -> None:
    """One for every call, or one for each operation; nothing declared is nothing assumed."""

    @tool(effects="read")
    def look() -> str:
        """Looks."""
        return ""

    @tool(effects={"get": "read", "put": "world"})
    def store(operation: Literal["get", "put", "burn"]) -> str:
        """Stores."""
        return ""

    @tool
    def run() -> str:
        """Runs."""
        return ""

    found = [store.spec.effect({"operation": operation}) for operation in ("get", "put", "burn")]
    assert (look.spec.effect({}), found, run.spec.effect({})) == ("read", ["read", "world", None], None)


def test_every_operation_of_a_built_in_tool_declares_its_effect() -> None:
    """No call of the tools that every agent has counts as undeclared."""
    for spec in Toolbox(BUILTIN_TOOLS).registry:
        operations = [one.choices for one in spec.arguments if one.name == "operation"] or [("",)]
        assert all(spec.effect({"operation": operation}) for operation in operations[0]), spec.name


def test_two_tools_of_one_name_are_refused() -> None:
    """A toolbox knows each tool by its name."""
    with pytest.raises(ContractError):
        Toolbox([*BUILTIN_TOOLS, BUILTIN_TOOLS[0]])


def test_the_tools_there_are() -> None:
    """Every agent has six tools, with the operations that rules and vectors name."""
    registry = Toolbox(BUILTIN_TOOLS).registry

    assert registry.names == ("shell", "filesystem", "git", "notes", "reply", "goal")
    assert "read|write|edit|list|exists|info|delete|mkdir|grep|glob" in registry.describe()
    assert "status|log|diff|branch|add|commit|checkout|pull|push" in registry.describe()


@pytest.mark.parametrize(
    "call",
    [
        f'TOOL: filesystem(operation="write", path="a.env", content="DEBUG=1\\nPASSWORD={HIDDEN}")',
        f'TOOL: filesystem(operation="mkdir", path="{HIDDEN}")',
        f'TOOL: filesystem(operation="edit", path="a.env", old="PASSWORD={HIDDEN}", new="")',
        f'TOOL: shell(command="echo PASSWORD={HIDDEN} > a.env")',
        f'TOOL: shell(command="cat > a.env <<E\\nPASSWORD={HIDDEN}\\nE")',
        f'TOOL: git(operation="commit", args="-m {HIDDEN}")',
        f'TOOL: keep(entries=[{{"{HIDDEN}": 1}}])',
        f'TOOL: keep(entries=[{{"a": ["{HIDDEN}"]}}])',
    ],
)
async def test_no_call_writes_the_mask_of_a_secret(context: ToolContext, call: str) -> None:
    """A file, a command, a tool whose effect is not known: refused with a sentence, and nothing is changed."""
    kept: list[object] = []

    @tool
    def keep(entries: list[object]) -> str:
        """Keeps something."""
        kept.extend(entries)
        return ""

    (context.workspace / "a.env").write_text("PASSWORD=hunter2-x9")
    toolbox = Toolbox([*BUILTIN_TOOLS, keep])
    outcome = await toolbox.run(parse(call, toolbox.registry), context)

    assert (outcome.status, outcome.error) == ("blocked", MASKED)
    assert HIDDEN in MASKED
    assert not kept
    assert (context.workspace / "a.env").read_text() == "PASSWORD=hunter2-x9"
    assert [path.name for path in context.workspace.iterdir()] == ["a.env"]


@pytest.mark.parametrize(
    "call",
    [
        f'TOOL: filesystem(operation="read", path="{HIDDEN}")',
        f'TOOL: notes(operation="remember", text="the password is {HIDDEN}")',
        f'TOOL: reply(text="your password is {HIDDEN}")',
        'TOOL: filesystem(operation="write", path="a.py", content="x = config[secret]")',
    ],
)
async def test_a_call_that_changes_no_file_may_hold_the_mask(context: ToolContext, call: str) -> None:
    """To read, to note and to answer; and what only looks like a mask is written."""
    toolbox = Toolbox(BUILTIN_TOOLS)

    assert (await toolbox.run(parse(call, toolbox.registry), context)).error != MASKED


async def test_what_is_no_call_has_no_outcome(context: ToolContext) -> None:
    """Doing nothing, reflecting and an invalid reply execute nothing."""
    toolbox = Toolbox(BUILTIN_TOOLS)

    for text in ("DO_NOTHING: x", "REFLECT: y", "prose", 'TOOL: shell(command="touch made"'):
        outcome = await toolbox.run(parse(text, toolbox.registry), context)
        assert (outcome.status, outcome.error, outcome.output.text) == ("none", None, "")
    assert list(context.workspace.iterdir()) == []


async def test_a_plain_function_runs_beside_the_loop(context: ToolContext) -> None:
    """A blocking tool blocks nobody else, and its text is its output."""

    @tool
    def where(name: str) -> str:
        """Says where it runs."""
        return f"{name} {threading.current_thread() is threading.main_thread()}"

    outcome = await use(where, context, name="x")

    assert (outcome.status, outcome.output.text) == ("success", "x False")
    assert outcome.ms > 0


async def test_a_tool_that_breaks_is_an_error_in_one_sentence(context: ToolContext) -> None:
    """Exceptions, exits and wrong results of a tool are errors of that act alone."""

    @tool
    def raises() -> str:
        """Raises."""
        raise ValueError("two\nlines \x1b[31m")

    @tool
    async def refuses() -> str:
        """Refuses."""
        raise ToolError("not today")

    @tool
    def exits() -> str:
        """Exits."""
        raise SystemExit(3)

    @tool
    def forgets() -> str:
        """Returns nothing."""
        return None  # type: ignore[return-value]

    said = {made.spec.name: await use(made, context) for made in (raises, refuses, exits, forgets)}

    assert {outcome.status for outcome in said.values()} == {"error"}
    assert said["raises"].error == "raises failed: ValueError: two lines �[31m"
    assert said["refuses"].error == "not today"
    assert said["exits"].error == "exits failed: SystemExit: 3"
    assert said["forgets"].error == "forgets returned NoneType, not text"


async def test_a_tool_that_hangs_times_out(context: ToolContext) -> None:
    """When the time is up the outcome is a timeout, and the tool is cancelled."""
    cancelled = asyncio.Event()

    @tool
    async def hangs() -> str:
        """Hangs."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    brief = replace(context, settings=context.settings.model_copy(update={"timeout": 0.05}))
    outcome = await use(hangs, brief)

    assert (outcome.status, outcome.error) == ("timeout", "hangs took longer than 0.05 seconds")
    assert cancelled.is_set()


async def test_a_tools_own_timeout_is_an_error_of_the_tool(context: ToolContext) -> None:
    """A TimeoutError before the time is up is the tool's failure."""

    @tool
    async def gives_up() -> str:
        """Gives up."""
        raise TimeoutError("the oven is cold")

    assert (await use(gives_up, context)).status == "error"


async def test_a_call_for_other_tools_is_an_error(context: ToolContext) -> None:
    """An action that was parsed with other tools is checked again before anything is done."""
    outcome = await Toolbox(BUILTIN_TOOLS).run(action("rocket"), context)

    assert (outcome.status, outcome.error) == (
        "error",
        "there is no tool rocket; there are shell, filesystem, git, notes, reply, goal",
    )


async def test_cancelling_is_passed_on(context: ToolContext) -> None:
    """A cancelled act raises, so that a shutdown is no outcome."""
    begun = asyncio.Event()

    @tool
    async def waits() -> str:
        """Waits."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(use(waits, context))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_output_is_cut_for_the_event(context: ToolContext) -> None:
    """Long output keeps head and tail, its length and its digest."""

    @tool
    def talks() -> str:
        """Talks."""
        return "a" + "\0" * 100_000 + "z"

    outcome = await use(talks, context)

    assert outcome.output.length == 100_002
    assert outcome.output.text[0] == "a"
    assert outcome.output.text[-1] == "z"
    assert len(outcome.model_dump_json()) < 70_000


async def test_shell_says_how_the_command_came_out(act: Act, context: ToolContext, bwrap: Sandbox) -> None:
    """Success is exit status 0; another is an error with its status and output."""
    confined = replace(context, sandbox=bwrap)

    good = await act('TOOL: shell(command="echo hi; pwd")', confined)
    bad = await act('TOOL: shell(command="echo no; exit 4")', confined)

    assert (good.status, good.exit_code, good.output.text) == ("success", 0, "hi\n/workspace\n")
    assert (bad.status, bad.exit_code, bad.output.text) == ("error", 4, "no\n")
    assert bad.error == "the command ended with exit status 4"


async def test_shell_is_blocked_where_it_cannot_be_confined(
    act: Act, context: ToolContext, only_bubblewraps: MakeBubblewraps
) -> None:
    """Without bubblewrap shell and git are blocked, and say how to get it."""
    only_bubblewraps()
    bare = replace(context, sandbox=Sandbox(context.settings))

    for text in ('TOOL: shell(command="ls")', 'TOOL: git(operation="status")'):
        outcome = await act(text, bare)
        assert outcome.status == "blocked"
        assert "install bubblewrap" in str(outcome.error)


async def test_git_keeps_a_history(act: Act, context: ToolContext, bwrap: Sandbox) -> None:
    """The agent can look at a repository, add and commit in it, with words in quotes; what git refuses is an error."""
    confined = replace(context, sandbox=bwrap)
    await act('TOOL: shell(command="git init -q -b main . && echo one > a")', confined)

    await act('TOOL: git(operation="add", args="a")', confined)
    commit = await act('TOOL: git(operation="commit", args="-m \'the first one\'")', confined)
    log = await act('TOOL: git(operation="log", args="--format=%an:%s")', confined)
    clean = await act('TOOL: git(operation="status", args="--short")', confined)
    wrong = await act('TOOL: git(operation="checkout", args="nowhere")', confined)
    quote = await act('TOOL: git(operation="commit", args="-m \'open")', confined)

    assert commit.status == "success"
    assert log.output.text == "Conch agent:the first one\n"
    assert (clean.status, clean.output.text) == ("success", "")
    assert (wrong.status, wrong.exit_code) == ("error", 1)
    assert "cannot be split" in str(quote.error)


async def test_hooks_of_the_workspace_stay_in_the_sandbox(act: Act, context: ToolContext, bwrap: Sandbox) -> None:
    """What a repository's hook does, it does confined."""
    confined = replace(context, sandbox=bwrap)
    target = context.workspace.parent / "escaped"
    await act('TOOL: shell(command="git init -q . && echo one > a && git add a")', confined)
    hook = context.workspace / ".git/hooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\necho x > {target} || echo x > hooked\n")
    hook.chmod(0o755)

    await act('TOOL: git(operation="commit", args="-m x")', confined)

    assert not target.exists()
    assert (context.workspace / "hooked").exists()


async def test_git_finds_no_repository_around_the_workspace(act: Act, context: ToolContext, off: Sandbox) -> None:
    """Unconfined too, a repository that the workspace lies in is not the agent's."""
    await off.run(["git", "init", "-q", "."], workspace=context.workspace.parent, timeout=10)

    outcome = await act('TOOL: git(operation="status")', context)

    assert (outcome.status, outcome.exit_code) == ("error", 128)


async def test_notes_are_remembered(act: Act) -> None:
    """A note is kept once and found by its words."""
    first = await act('TOOL: notes(operation="remember", text="tests live in tests/")')
    second = await act('TOOL: notes(operation="remember", text="tests live in tests/")')
    found = await act('TOOL: notes(operation="recall", text="where do the tests live?")')
    nothing = await act('TOOL: notes(operation="recall", text="bananas")')

    assert [one.output.text for one in (first, second, found, nothing)] == [
        "kept",
        "known already",
        "- tests live in tests/",
        "no note about that",
    ]


async def test_a_reply_answers_the_message_that_waits(act: Act, context: ToolContext) -> None:
    """The outcome names the message that was answered; without one, or without words, it is an error."""
    answer = await act('TOOL: reply(text="fine")')
    empty = await act('TOOL: reply(text=" ")')
    nobody = await act('TOOL: reply(text="fine")', replace(context, message=None))

    assert (answer.status, answer.output.text, answer.answered) == ("success", "fine", "m1")
    assert (empty.status, empty.answered) == ("error", None)
    assert (nobody.status, nobody.error, nobody.answered) == ("error", "nobody waits for an answer", None)

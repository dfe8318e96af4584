"""`conch tool list | test`: the tools that the agent has, and one call of a tool as the agent would make it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.chat_approval import QUESTION, decision_in
from conch.cli.common import QUOTED, CommonOptions, emit, quiet, say, table, warn
from conch.cli.options import COMMON, AgentName
from conch.errors import CheckError, ToolError, UsageError
from conch.text import instead, safe_text
from conch.views import ToolCalled, tool_called, tools_shown

if TYPE_CHECKING:
    from pydantic import JsonValue

    from conch.actions import Registry, ToolSpec
    from conch.tools import Ruling
    from conch_schemas import Action, Outcome

app = App(name="tool", help="Tools of the agent: which there are, and a call of one.")


@app.command(name="list")
async def list_(*, common: CommonOptions = COMMON) -> None:
    """The tools that a run's agents have, with their sources, effects, policy and time-outs.

    Files of tools are imported and MCP servers started for it, as a run does.
    """
    from conch.tools import ToolPolicy, installed_tools, load_tools, opened_tools
    from conch.trusted import workspace_in

    quiet()
    settings = common.settings()
    policy = ToolPolicy(settings.tools.policy, workspace_in(common.where(), settings))
    async with opened_tools(settings, warn, load_tools(installed_tools().points)) as toolbox:
        shown = tools_shown(toolbox, policy, settings.tools)
    if common.json:
        emit(shown)
        return
    rows = [(one.name, one.source, one.effect_words, one.policy, f"{one.timeout:g} s") for one in shown.tools]
    table(("tool", "source", "effects", "policy", "time-out"), rows, wraps=["source", "effects", "policy"])


@app.command(name="test")
async def try_(
    name: Annotated[str, Parameter(help="The tool, as conch tool list names it.")],
    /,
    *arguments: Annotated[str, Parameter(help="Its arguments, each as NAME=VALUE; no text: as JSON.")],
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Execute one call of a tool, in the agent's workspace and sandbox, under its guardrails and policy.

    Nothing is published, and no reward comes of it. What the policy wants an approval for is asked about on a terminal,
    and not executed in a pipe. Exit code 1 where the tool fails, 2 where there is no such call, 4 where the call is
    blocked.
    """
    from conch.actions import effect_of
    from conch.cli.people_facts import agent_named, names_in
    from conch.cli.run.agents import workspace_of
    from conch.tools import Notes, Sandbox, ToolContext, ToolPolicy, installed_tools, load_tools, opened_tools
    from conch.trusted import workspace_in
    from conch.values import in_force

    quiet()
    home, settings = common.existing(), common.settings()
    named = agent_named(home, settings, agent)
    workspace = workspace_of(workspace_in(home, settings), named, alone=len(names_in(home, settings)) == 1)
    if not workspace.is_dir():
        raise UsageError(f"there is no workspace at {workspace} yet: conch run makes it")
    async with opened_tools(settings, warn, load_tools(installed_tools().points)) as toolbox:
        action = _call(toolbox.registry, name, arguments)
        guard = in_force(settings.values).guard(action)
        ruling = ToolPolicy(settings.tools.policy, workspace).ruling(action)
        own = home.agent_dir(named)
        own.mkdir(parents=True, exist_ok=True)
        with Notes(own / "notes.db") as notes:
            context = ToolContext(workspace, Sandbox(settings.tools), notes, settings.tools)
            why = guard or _refused(ruling)
            outcome = _blocked(why) if why is not None else await toolbox.run(action, context)
        _show(common, tool_called(action, outcome, effect_of(action)))
    if outcome.status == "blocked":
        raise CheckError(outcome.error or f"the call of {name} is blocked")
    if outcome.status != "success":
        raise ToolError(outcome.error or f"{name} failed")


def _call(registry: Registry, name: str, arguments: tuple[str, ...]) -> Action:
    """The call. Raises UsageError for one that cannot be."""
    from conch_schemas import Action

    if name not in registry:
        raise UsageError(f"there is no tool {safe_text(name, one_line=True)[:60]}: {instead(name, registry.names)}")
    args: dict[str, JsonValue] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key in args:
            why = "twice" if equals else "without a value"
            raise UsageError(
                f"the argument {safe_text(key, one_line=True)[:60]} is given {why}: write NAME=VALUE, once"
            )
        args[key] = _value(registry[name], key, value)
    if objection := registry[name].objection(args):
        raise UsageError(f"{objection} (conch tool test {name} NAME=VALUE …)")
    return Action(kind="TOOL", valid=True, tool=name, args=args, declared_effect=registry[name].effect(args))


def _value(spec: ToolSpec, key: str, value: str) -> JsonValue:
    kind = next((one.type for one in spec.arguments if one.name == key), "string")
    if kind == "string":
        return value
    try:
        found: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        raise UsageError(f"{spec.name}: {key} must be of type {kind}, as JSON, not {value[:60]!r}") from None
    return found


def _refused(ruling: Ruling) -> str | None:
    """Why the policy has the call blocked; None: it has not. A person at a terminal is asked where it asks."""
    if ruling.do == "allow":
        return None
    if ruling.do == "deny":
        return ruling.why
    if not sys.stdin.isatty():
        return f"{ruling.why}; in a pipe nobody is asked"
    say(ruling.why)
    while (decision := decision_in(input(QUESTION))) is None:
        pass
    return None if decision[0] == "approve" else "a person denied it" + (f": {decision[1]}" if decision[1] else "")


def _blocked(why: str) -> Outcome:
    from conch.text import cut
    from conch_schemas import Outcome

    return Outcome(status="blocked", output=cut(""), error=why)


def _show(common: CommonOptions, called: ToolCalled) -> None:
    if common.json:
        emit(called)
        return
    effect = called.effect or "not declared"
    say(f"{called.outcome} · effect {effect} · {called.ms:.1f} ms")
    for line in called.output.splitlines():
        say(f"{QUOTED}{line}")

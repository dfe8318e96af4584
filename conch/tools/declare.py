"""Declaration of tools: a typed function becomes a tool with a signature, a description and a context."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, overload

from conch.actions import Argument, ArgumentType, Effects, ToolSpec
from conch.config import ToolSettings
from conch.errors import ContractError
from conch.tools.isolation.sandbox import Sandbox
from conch.tools.notes import Notes
from conch_schemas import Goal

_TYPES: dict[Any, ArgumentType] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_DOCUMENTED = re.compile(r"^\s*(\w+): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class ToolContext:
    """The context that is passed to tools: workspace, sandbox, notes, settings."""

    workspace: Path
    sandbox: Sandbox
    notes: Notes
    settings: ToolSettings
    message: tuple[str, str] | None = None
    """Id and text of the oldest unanswered message of a person; None where there is none."""
    goal_objection: Callable[[Goal], str | None] = lambda _: None
    """Why the agent may not propose this goal now, in one sentence; None: it may."""
    message_objection: Callable[[Sequence[str], str], str | None] | None = None
    """Why the role that has the turn may not send this text to these roles, in one sentence, or None: it may. None
    where the agent is no team."""
    outputs: Path | None = None
    """The folder for outputs of commands that are too long for a result; None: they are not kept."""


@dataclass(frozen=True)
class ToolResult:
    """A tool's result, where it is more than a plain text (a success)."""

    output: str = ""
    status: Literal["success", "error", "timeout", "blocked"] = "success"
    error: str | None = None
    """One sentence unless it is a success."""
    exit_code: int | None = None
    answered: str | None = None
    """Id of the message that it answered."""
    proposed: str | None = None
    """Id of the goal that it proposed."""
    unavailable: bool = False
    """Whether it could not be used for a reason outside of the agent: the act then says nothing of the agent."""


BUILT_IN = "built in"
"""Origin of a tool that comes with Conch."""
ToolFunction = Callable[..., str | ToolResult | Awaitable[str | ToolResult]]


@dataclass(frozen=True)
class Tool:
    """A tool that the mind calls as `spec.name`. Made by `tool`."""

    spec: ToolSpec
    function: ToolFunction
    """Takes the arguments by name, and a ToolContext by position where `wants_context`. A plain function runs in a
    thread: it may block; after its time limit its result is ignored, but it runs on."""
    wants_context: bool
    timeout: float | None = None
    """Seconds that one call may take; None: `tools.timeout`."""
    origin: str = BUILT_IN
    """`built in`, `file PATH`, `MCP server NAME` or `entry point conch.tools:NAME`."""


@overload
def tool(function: ToolFunction) -> Tool: ...


@overload
def tool(*, effects: Effects) -> Callable[[ToolFunction], Tool]: ...


def tool(function: ToolFunction | None = None, *, effects: Effects | None = None) -> Any:
    """Make a tool of a function: its name, the first line of its docstring, its annotated parameters.

    str, int, float, bool, list and dict are those types, a Literal of texts lists choices, a default (or `| None`)
    makes an argument optional, a line `parameter: sentence` of the docstring describes it; a first parameter of type
    ToolContext is not shown to the mind. Raises ContractError for any other signature.

    ```python
    from conch import tool


    @tool(effects="read")
    def double(number: int) -> str:
        '''Doubles a number.'''
        return str(2 * number)


    assert double.spec.describe() == "- double(number: integer): Doubles a number."
    ```
    """
    if function is not None:
        return _tool(function, {})
    return lambda function: _tool(function, effects or {})


def _tool(function: ToolFunction, effects: Effects) -> Tool:
    name = getattr(function, "__name__", "")
    hints = {key: hint for key, hint in get_type_hints(function).items() if key != "return"}
    parameters = list(inspect.signature(function).parameters.values())
    wants_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
    doc = inspect.getdoc(function) or ""
    said = dict(_DOCUMENTED.findall(doc))
    arguments = [
        _argument(parameter, hints, said.get(parameter.name, ""), name) for parameter in parameters[wants_context:]
    ]
    # Required arguments come first in every list and every constraint.
    arguments.sort(key=lambda argument: not argument.required)
    return Tool(ToolSpec(name, doc.split("\n", 1)[0], tuple(arguments), effects), function, wants_context)


def _argument(parameter: inspect.Parameter, hints: Mapping[str, object], doc: str, function: str) -> Argument:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ContractError(f"the tool {function} cannot take *{parameter.name}: every argument has a name and a type")
    hint, optional = _without_none(hints.get(parameter.name))
    required = parameter.default is parameter.empty and not optional
    if get_origin(hint) is Literal and all(isinstance(choice, str) for choice in get_args(hint)):
        return Argument(parameter.name, "string", required, get_args(hint), doc)
    kind = _TYPES.get(get_origin(hint) or hint)
    if kind is None:
        raise ContractError(f"the argument {parameter.name} of the tool {function} has no type that a reply can hold")
    return Argument(parameter.name, kind, required, (), doc)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    rest = [part for part in get_args(hint) if part is not type(None)]
    return (rest[0], True) if len(rest) == 1 else (None, False)

"""Rules outside a run: turns replies of a trainer or an evaluation into the acts that rules score.

Further columns with the name of a field of `action.taken` (`outcome`, `tools`, `needs`, `goals`, `thought`, `memory`,
`constrained`, `usage`, `episode`, `terminal` …) set that field of the act; see `act_of`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

from conch.actions import Argument, Registry, ToolSchema, ToolSpec, UnreadableSchemaError, parse
from conch.errors import ContractError
from conch.rules import Message, Rule, Trajectory, declare_as, rule_of, state_and_value
from conch.text import cut
from conch_schemas import ActionTaken, action_id, cycle_event_id, source_of

R = TypeVar("R")

AGENT: Final = "offline"
"""Agent name of these acts."""
_SPACE: Final = UUID("8a5f4f0e-6a0b-4f43-9d0c-2b6a1d2f7c11")


def act_of(prompt: Any, completion: Any, columns: Mapping[str, object] | None = None) -> ActionTaken:
    """The act for a reply: parsed by the grammar of a run, its outcome taken from the columns.

    `prompt` and `completion` are texts or lists of messages; the last message of the assistant is the reply. `tools`:
    the available tools, each a built-in one's name or a function's JSON schema; without it the built-in ones.
    `outcome`: a status, or a table of the fields of `conch_schemas.Outcome`; without it `unknown` for a valid tool
    call, as no tool was run, and `none` for everything else. None in a column counts as absent. The same prompt and
    completion have the same ids. Raises ContractError or ValueError for invalid columns.
    """
    columns = {name: value for name, value in (columns or {}).items() if value is not None}
    text = reply_of(completion)
    registry = _registry(columns.get("tools"))
    action, raw = parse(text, registry), cut(text)
    identity = action_id(uuid5(_SPACE, json.dumps([prompt, completion], default=str)), 0)
    ran = action.valid and action.kind == "TOOL"
    fields = {
        "agent": AGENT,
        "source": source_of(AGENT, _SPACE),
        "cycle": 0,
        "action_id": identity,
        "subject": identity,
        "needs": {},
        "model": "",
        "ms": {},
        **{name: value for name, value in columns.items() if name in ActionTaken.model_fields},
        "id": cycle_event_id(identity, ActionTaken),
        "action": action,
        "raw": raw.text,
        "raw_length": raw.length,
        "raw_sha256": raw.sha256,
        "outcome": _outcome(columns.get("outcome", "unknown" if ran else "none")),
        "tools": registry.names,
    }
    return ActionTaken.model_validate(fields)


def trajectory_of(
    prompt: Any, completion: Any, columns: Mapping[str, object] | None = None, tokens: Sequence[int] = ()
) -> Trajectory:
    """The conversation of a prompt and its completion; `columns` are its facts, `tokens` those of its completions."""
    messages = (*_messages(prompt, "user"), *_messages(completion, "assistant"))
    return Trajectory(messages, tuple(tokens), dict(columns or {}))


def reply_of(completion: Any) -> str:
    """The text of a completion: itself, or that of the last message of the assistant in a list ("" without one)."""
    said = [message.content for message in _messages(completion, "assistant") if message.role == "assistant"]
    return said[-1] if said else ""


def asking(rule: Rule[Any], make: Callable[[R], Any]) -> Rule[R]:
    """A rule over the inputs of `make`, which makes an act or other subject of `rule`, within its declared time limit.

    A rule with a window gets that act alone, one with a state its first state: replies of a batch have no past. At the
    time limit awaited work is cancelled; a function that blocks runs to its end, and then counts as timed out.
    """
    declared = rule_of(rule)
    if declared is None:
        return lambda source: rule(make(source))
    info, state, function = declared.info, declared.state, declared.function

    async def ask(source: R) -> float | None:
        subject = make(source)
        given = (state(), subject) if state else ((subject,),) if info.window else (subject,)
        began = time.monotonic()
        async with asyncio.timeout(info.timeout):
            found = function(*given)
            said: Any = await found if inspect.isawaitable(found) else found
        if info.timeout is not None and time.monotonic() - began > info.timeout:
            raise TimeoutError(f"no value within {info.timeout:g} s")
        value: float | None = state_and_value(said, state)[1] if state else said
        return value

    declare_as(ask, declared)  # its range holds
    return ask


def name_of(rule: Rule[Any]) -> str:
    """The name of a rule: as it is declared, else of its function or class."""
    declared = rule_of(rule)
    return declared.name if declared is not None else str(getattr(rule, "__name__", type(rule).__name__))


def _messages(said: Any, role: str) -> tuple[Message, ...]:
    if isinstance(said, str):
        return (Message(role, said),)
    if isinstance(said, Sequence) and all(isinstance(message, Mapping) for message in said):
        return tuple(Message(str(message.get("role") or role), _text(message.get("content"))) for message in said)
    raise ContractError(f"a prompt or completion is a text or a list of messages, not {type(said).__name__}")


def _text(content: Any) -> str:
    """The text of a message's content: itself, or that of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _outcome(told: Any) -> dict[str, object]:
    table = {"status": told} if isinstance(told, str) else dict(told)
    output = table.get("output") or ""
    return table | {"output": cut(output) if isinstance(output, str) else output}


def _registry(tools: Any) -> Registry:
    known = _builtin()
    if tools is None:
        return known
    return Registry(known[tool] if isinstance(tool, str) and tool in known else _spec(tool) for tool in tools)


@cache
def _builtin() -> Registry:
    from conch.tools import BUILTIN_TOOLS  # imported late: a caller with its own tools does without

    return Registry(tool.spec for tool in BUILTIN_TOOLS)


def _spec(tool: Any) -> ToolSpec:
    """A function's JSON schema as a tool."""
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ContractError(f"the tool {str(tool)[:80]!r} is neither a built-in one nor a function's JSON schema")
    name = function["name"].lower()
    try:
        schema = ToolSchema(function.get("parameters"))
    except UnreadableSchemaError as error:
        raise ContractError(f"the tool {name[:80]!r}: {error}") from None
    arguments = (
        _argument(schema, argument)
        for argument, described in schema.properties.items()
        if described is not None  # a data set fills the tables of a column up with None
    )
    return ToolSpec(name, str(function.get("description") or ""), tuple(arguments))


def _argument(schema: ToolSchema, name: str) -> Argument:
    required = name in schema.required
    try:
        described = schema.argument(name)
    except UnreadableSchemaError:
        return Argument(name, required=required)
    return Argument(name, described.type, required, described.choices)

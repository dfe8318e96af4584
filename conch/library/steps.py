"""What a program says of a step of its cycle, as values of events: the action, the outcome, the tokens. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, cast, get_args

from pydantic import JsonValue, TypeAdapter, ValidationError

from conch.actions import Registry, ToolSpec, parse, render
from conch.cycle.state.rewards import with_short_arguments
from conch.errors import ContractError
from conch.text import cut
from conch_schemas import Action, Effect, Outcome, OutcomeStatus, PromptMessage, Usage

ARGUMENT_BYTES: Final = 64 * 1024
"""Most bytes of all arguments of a call, as JSON, that an event holds whole; of larger ones the middle is left out."""
MOST_TOOLS: Final = 256
"""Most tools of a program that its acts list; those that it uses beyond are accepted, and not listed."""
ERROR_BYTES: Final = 4 * 1024
"""Most bytes of an error's text."""
NAME_LENGTH: Final = 64
"""Most characters of a tool's name."""

_JSON: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_OTHER = re.compile(r"[^a-z0-9_]+")

Tools = Iterable[str] | Mapping[str, Effect | None]
"""Names of tools; or by name what each may change: `read`, `workspace`, `world`, None where that is not known."""
Tokens = Usage | Mapping[str, object] | object | None
"""Tokens as `Usage`, or as an endpoint's own object or mapping counts them (OpenAI's and Anthropic's names)."""


class ProgramTools(Registry):
    """The tools of a program: every call is accepted, as the program itself checks it; declared tools are listed."""

    def objection(self, tool: str, args: Mapping[str, JsonValue]) -> str | None:
        """None: there is no call that Conch could refuse."""
        return None

    def __getitem__(self, name: str) -> ToolSpec:
        """The declared tool of that name, or one without an effect."""
        return self._by_name.get(name) or ToolSpec(name, "")

    def with_tools(self, tools: Tools) -> ProgramTools:
        """These tools and more; of one that was declared before, the later declaration counts. Raises ContractError for
        a name without a letter, and for an effect that there is not."""
        if isinstance(tools, str):
            raise ContractError(f"tools is a text: give the names as a list, tools=[{tools!r}]")
        effects = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools)
        found = {spec.name: spec for spec in self}
        for name, effect in effects.items():
            plain = tool_name(name)
            found[plain] = ToolSpec(plain, "", effects=effect if effect is not None else {})
        return ProgramTools(list(found.values())[:MOST_TOOLS])


def tool_name(name: object) -> str:
    """The name as events have it: lower case, other characters than letters, digits and underscores become one
    underscore, at most NAME_LENGTH characters. Raises ContractError for what has none of them.

    >>> tool_name("Web-Search")
    'web_search'
    """
    plain = _OTHER.sub("_", name.lower())[:NAME_LENGTH] if isinstance(name, str) else ""
    if not plain.strip("_"):
        raise ContractError(f"a tool cannot be called {str(name)[:60]!r}: it needs a letter or a digit (a-z, 0-9)")
    return plain


def action_of(what: str, tool: str | None, args: Mapping[str, object] | None, text: str, tools: Registry) -> Action:
    """The action of a decision: `tool` with `args`; or `what`: DO_NOTHING or REFLECT with `text`, or a reply in the
    grammar. Raises ContractError for both, for neither, and for arguments that are no JSON."""
    if (tool is None) == (not what):
        raise ContractError('a decision is either tool="name", args={...}, or "DO_NOTHING", "REFLECT" or a raw reply')
    if tool is not None:
        name, given = tool_name(tool), _arguments(args or {})
        action = Action(kind="TOOL", valid=True, tool=name, args=given, declared_effect=tools[name].effect(given))
    elif args is not None:
        raise ContractError("args belong to a tool: name it, tool=...")
    elif what in ("DO_NOTHING", "REFLECT"):
        action = Action(kind=what, valid=True, text=cut(text).text)
    else:
        action = parse(what, tools)
    large = len(json.dumps(action.args)) > ARGUMENT_BYTES
    return with_short_arguments(action, ARGUMENT_BYTES // (1 + len(action.args))) if large else action


def raw_of(action: Action, what: str, raw: str | None) -> str:
    """The reply behind an action: as the program gave it, else as the grammar writes the action."""
    if raw is not None:
        return raw
    return render(action) if (action.kind == "TOOL" and action.valid) or what == action.kind else what


def outcome_of(
    action: Action, status: OutcomeStatus | None, output: object, error: object, exit_code: int | None, ms: float
) -> Outcome:
    """The outcome of an act. Raises ContractError for a status that there is not, or that cannot be the action's."""
    runs = action.kind == "TOOL" and action.valid
    status = status if status is not None else "success" if runs else "none"
    if status not in get_args(OutcomeStatus):
        raise ContractError(f"there is no outcome {str(status)[:60]!r}, there are {', '.join(get_args(OutcomeStatus))}")
    if runs == (status == "none"):
        what = "a tool was called: its outcome is not none" if runs else "nothing was to be run: its outcome is none"
        raise ContractError(f"{what}, not {status}" if not runs else what)
    if ms < 0:
        raise ContractError(f"ms={ms:g}: an act takes no negative time")
    said = None if error is None else cut(str(error), ERROR_BYTES).text
    return Outcome(status=status, output=cut(text_of(output)), error=said, exit_code=exit_code, ms=ms)


def text_of(value: object) -> str:
    """A tool's output as text: a text as it is, None as nothing, all else as JSON, where that cannot be as `str`."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def usage_of(tokens: Tokens) -> Usage:
    """The tokens, by the names of OpenAI or Anthropic; 0 where there are none. Raises ContractError for a count that is
    no number of tokens."""
    if tokens is None or isinstance(tokens, Usage):
        return tokens or Usage()
    try:
        return Usage(
            input_tokens=_count(tokens, "input_tokens", "prompt_tokens"),
            output_tokens=_count(tokens, "output_tokens", "completion_tokens"),
        )
    except ValidationError:
        raise ContractError(f"usage={str(tokens)[:100]!r} has no counts of tokens, 0 or more") from None


def messages_of(messages: Iterable[Mapping[str, object]]) -> tuple[PromptMessage, ...]:
    """Messages of a chat as the event holds them, together at most ARGUMENT_BYTES; other roles than system and
    assistant count as the user's."""
    given = list(messages)
    room = ARGUMENT_BYTES // max(1, len(given))
    return tuple(PromptMessage(role=_role(one.get("role")), content=_content(one, room)) for one in given)


def _role(role: object) -> Literal["system", "user", "assistant"]:
    return "system" if role == "system" else "assistant" if role == "assistant" else "user"


def _content(message: Mapping[str, object], room: int) -> str:
    content = message.get("content")
    return cut(text_of(content if content is not None else message.get("tool_calls")), room).text


def _arguments(args: Mapping[str, object]) -> dict[str, JsonValue]:
    try:
        given = _JSON.validate_python(dict(args))
        json.dumps(given, allow_nan=False).encode()
    except (ValidationError, ValueError, TypeError, RecursionError):
        raise ContractError(f"args={str(args)[:100]!r} are no JSON object: texts, numbers, lists and objects") from None
    return given


def _count(tokens: object, *names: str) -> int:
    for name in names:
        found = tokens.get(name) if isinstance(tokens, Mapping) else getattr(tokens, name, None)
        if found is not None:
            return cast(int, found)
    return 0

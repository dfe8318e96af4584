"""What a program says of a step of its cycle, as values of events: the action, the outcome, the tokens. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, cast, get_args

from pydantic import JsonValue, TypeAdapter, ValidationError

from conch.actions import Registry, ToolSpec, parse, render
from conch.cycle.state.rewards import with_short_arguments
from conch.errors import ContractError
from conch.text import cut, well_formed
from conch_schemas import Action, Effect, Outcome, OutcomeStatus, PromptMessage, Usage

ARGUMENT_BYTES: Final = 64 * 1024
"""Most bytes of all arguments of a call, as JSON, that an event holds whole; of larger ones the middle is left out."""
MOST_TOOLS: Final = 256
"""Most tools of a program that its acts list; those that it uses beyond are accepted, and not listed."""
ERROR_BYTES: Final = 4 * 1024
"""Most bytes of an error's text."""
MOST_MESSAGES: Final = 256
"""Most messages of a chat that a decision holds; of more, those in the middle are left out, with a message that says
how many."""
MOST_COUNT: Final = 2**53 - 1
"""Largest number of tokens, and largest exit status: every reader of JSON has it exactly, and every store takes it."""
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
    refuse_other_than_text(text=text, decision=what)
    if tool is not None:
        name, given = tool_name(tool), _arguments(args if args is not None else {})
        action = Action(kind="TOOL", valid=True, tool=name, args=given, declared_effect=tools[name].effect(given))
    elif args is not None:
        raise ContractError("args belong to a tool: name it, tool=...")
    elif what in ("DO_NOTHING", "REFLECT"):
        action = Action(kind=what, valid=True, text=cut(text).text)
    else:
        action = parse(what, tools)
    if len(json.dumps(action.args)) > ARGUMENT_BYTES:
        action = with_short_arguments(action, ARGUMENT_BYTES // (1 + len(action.args)))
    if (left := len(json.dumps(action.args))) > 4 * ARGUMENT_BYTES:
        raise ContractError(
            f"args have {left:,} bytes as JSON with their texts shortened, an event holds {4 * ARGUMENT_BYTES:,}: "
            "pass fewer, or the name of a file that has them"
        )
    return action


def raw_of(action: Action, what: str, raw: str | None) -> str:
    """The reply behind an action: as the program gave it, else as the grammar writes the action. Raises ContractError
    for what is no text."""
    if raw is not None:
        refuse_other_than_text(raw=raw)
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
    if exit_code is not None and not (isinstance(exit_code, int) and abs(exit_code) <= MOST_COUNT):
        raise ContractError(f"exit_code={shown(exit_code)}: an exit status is a whole number")
    said = None if error is None else cut(words_of(error), ERROR_BYTES).text
    return Outcome(status=status, output=cut(text_of(output)), error=said, exit_code=exit_code, ms=ms)


def text_of(value: object) -> str:
    """A tool's output as text: a text as it is, None as nothing, all else as JSON, where that cannot be as `words_of`.
    Never raises: the act has been done."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, default=words_of)
    except Exception:  # circular, nested too deep, a key that is no text
        return words_of(value)


def words_of(value: object) -> str:
    """`str(value)`; its type's name where that raises."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that has no text>"


def shown(value: object) -> str:
    """The beginning of a value, for an error sentence."""
    return repr(words_of(value)[:100])


def refuse_other_than_text(**given: object) -> None:
    """Raises ContractError for a value that is no text, by the name it is given under."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise ContractError(f"{name} is a text, not {shown(value)} ({type(value).__name__})")


def refuse_time(ms: object) -> None:
    """Raises ContractError for what is no number of milliseconds."""
    if ms is not None and not (isinstance(ms, int | float) and 0 <= ms < math.inf):
        raise ContractError(f"ms={shown(ms)}: a step takes 0 milliseconds or more")


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
        raise ContractError(f"usage={shown(tokens)} has no counts of tokens, 0 or more") from None


def messages_of(messages: Iterable[Mapping[str, object]]) -> tuple[PromptMessage, ...]:
    """Messages of a chat as the event holds them, together at most ARGUMENT_BYTES; other roles than system and
    assistant count as the user's. Of more than MOST_MESSAGES, those in the middle are left out. Raises ContractError
    for what is no list of mappings."""
    given = [] if isinstance(messages, str | Mapping) else list(messages)
    if isinstance(messages, str | Mapping) or not all(isinstance(one, Mapping) for one in given):
        raise ContractError(f"messages={shown(messages)} is no list of mappings, each with role and content")
    if (left := len(given) - MOST_MESSAGES + 1) > 1:
        begin = MOST_MESSAGES // 2
        given[begin : begin + left] = [{"role": "user", "content": f"[… {left} messages left out …]"}]
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
        written = json.dumps(given, allow_nan=False, ensure_ascii=False)
    except (ValidationError, ValueError, TypeError, RecursionError):
        raise ContractError(f"args={shown(args)} are no JSON object: texts, numbers, lists and objects") from None
    plain = well_formed(written)
    return given if plain == written else _JSON.validate_json(plain)


def _count(tokens: object, *names: str) -> int:
    for name in names:
        found = tokens.get(name) if isinstance(tokens, Mapping) else getattr(tokens, name, None)
        if found is not None:
            if isinstance(found, int) and found > MOST_COUNT:
                raise ContractError(f"{name}={shown(found)}: that many tokens there are not")
            return cast(int, found)
    return 0

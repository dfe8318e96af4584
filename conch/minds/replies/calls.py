"""Calls of tools in a reply, whole or in parts, however an endpoint numbers them. Pure.

A part belongs to the call with its `id`, else to the one with its `index`, else to the last one. Gateways begin at 1
(router-for-me/CLIProxyAPI#5229, aws-samples/bedrock-access-gateway#134), leave the index out, number all calls 0, or
give each part of a call another index.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from conch_schemas import JsonObject

_ARGUMENTS = ("arguments", "parameters", "input", "args")
"""Names of the arguments: OpenAI's, Cohere's, Anthropic's, Gemini's."""
_FUNCTIONS = ("function", "functionCall", "function_call", "toolUse", "tool_use", "toolCall", "tool_call")
"""Names of the object in a call that holds its name and arguments."""


@dataclass
class _Call:
    index: int | None
    id: str
    name: str = ""
    parts: list[str] = field(default_factory=list)
    """Parts of the arguments as text; what came as another JSON value is its JSON text."""

    @property
    def arguments(self) -> str:
        """The arguments as JSON text.

        The parts are joined. Where that is no JSON object, each part that repeats all the text before it replaces that
        text. Without an object by then, the text is what was joined.
        """
        joined = "".join(self.parts)
        if (text := _object_text(joined)) is not None:
            return text
        grown = ""
        for part in self.parts if joined.endswith(("}", '"')) else ():
            grown = part if part.startswith(grown) or grown == "{}" else grown + part
        return _object_text(grown) or joined

    def add(self, arguments: JsonValue) -> int:
        """Append a part of the arguments; returns its characters. Raises TypeError for a number or a truth value."""
        if arguments is None or arguments == "":
            return 0
        if arguments == []:  # an empty object as PHP writes it
            arguments = {}
        if isinstance(arguments, list) and all(isinstance(part, str | dict) for part in arguments):
            return sum(map(self.add, arguments))
        if isinstance(arguments, int | float):
            raise TypeError("arguments of a call are no text and no object")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        self.parts.append(text)
        return len(text)


class ToolCallParts:
    """The calls of a reply, put together from their parts."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    @property
    def first(self) -> tuple[str, str] | None:
        """Name and arguments (JSON text) of the call with the least index, else of the earliest; None: no call came.

        The name is empty where none has come.
        """
        if not self._calls:
            return None
        _, call = min(enumerate(self._calls), key=lambda item: item[0] if item[1].index is None else item[1].index)
        return call.name, call.arguments

    def take(self, part: JsonValue) -> int:
        """Append a call or a part of one; returns the characters of its arguments. Raises TypeError for one that is
        none."""
        if not isinstance(part, dict):
            raise TypeError("a call is no object")
        function = next((part[key] for key in _FUNCTIONS if part.get(key) is not None), None)
        if function is not None and not isinstance(function, dict):
            raise TypeError("the function of a call is no object")
        said: JsonObject = {**part, **{key: value for key, value in (function or {}).items() if value is not None}}
        name = said.get("name") or ""
        if not isinstance(name, str):
            raise TypeError("the name of a call is no text")
        index, id = whole_number(part.get("index")), str(part.get("id") or "")
        call = self._call_of(index, id, name)
        call.id = call.id or id
        # Some gateways repeat the name in each part.
        call.name = name if name.startswith(call.name) else call.name + name
        return call.add(next((said[key] for key in _ARGUMENTS if said.get(key) is not None), None))

    def _call_of(self, index: int | None, id: str, name: str) -> _Call:
        """The call that a part belongs to, begun where it is the first part."""
        for call in reversed(self._calls):
            has_other_index = index is not None and call.index not in (None, index)
            if id and call.id == id and not (has_other_index and self._begins(call, None, "", name)):
                return call
        alike = [call for call in self._calls if index is None or call.index == index]
        if alike and not self._begins(alike[-1], index, id, name):
            return alike[-1]
        if index is not None and not name and not id and self._calls:  # each part with another index
            return self._calls[-1]
        call = _Call(index, id)
        self._calls.append(call)
        return call

    def _begins(self, last: _Call, index: int | None, id: str, name: str) -> bool:
        """Whether a part begins another call than `last`, which has its index, or none is given."""
        if not name:
            return False
        if id and last.id and id != last.id:
            return True
        if name == last.name and last.arguments == "{}":  # which stands for arguments that follow
            return False
        return (index is None and name != last.name) or _is_object(last.arguments)


def is_call(value: JsonValue) -> bool:
    """Whether a part of a message's content, which has no type, is a call."""
    return isinstance(value, dict) and any(
        isinstance(function := value.get(key), dict) and "name" in function for key in _FUNCTIONS
    )


def listed_calls(value: JsonValue) -> Iterator[JsonValue]:
    """The calls, or parts of calls, in `tool_calls`: a list, one call, calls by their index, or any of it as JSON text.
    Raises TypeError or ValueError for anything else."""
    if isinstance(value, str) and value:
        value = json.loads(value)
    if not value:
        return
    if isinstance(value, list):
        yield from (part for part in value if part is not None)
    elif not isinstance(value, dict):
        raise TypeError("the calls of tools are no list")
    elif "name" in value or not value.keys().isdisjoint(_FUNCTIONS):
        yield value
    else:
        for index, part in cast(Mapping[str, JsonValue], value).items():
            yield {"index": index, **part} if isinstance(part, dict) else part


def whole_number(value: JsonValue) -> int | None:
    """The whole number that a JSON value means, also where it is text; None where it means none."""
    if isinstance(value, str):
        value = value.strip()
        return int(value) if value.lstrip("-").isdecimal() and len(value) <= 18 and value.isascii() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value and abs(value) < 1e18 else None


def _is_object(text: str) -> bool:
    return _object_text(text) is not None


def _object_text(text: str) -> str | None:
    """The JSON object that a text holds, as its text; None where it holds none.

    Several objects behind each other add up, unless they contradict each other: an empty one may stand for the one that
    follows. An object whose text was made a JSON string, once or more often, is that object.
    """
    text = text.strip()
    if not text.endswith(("}", '"')):
        return None
    try:
        values = _values(text)
    except (ValueError, RecursionError):
        return None
    if len(values) == 1 and isinstance(values[0], str):
        return _object_text(values[0])
    whole: JsonObject = {}
    for value in values:
        if not isinstance(value, dict) or any(not _goes_on(whole[key], value[key]) for key in whole.keys() & value):
            return None
        whole |= value
    return text if len(values) == 1 and text.startswith("{") else json.dumps(whole, ensure_ascii=False)


def _values(text: str) -> list[JsonValue]:
    """The JSON values that stand behind each other in a text, less `null`. Raises ValueError, and RecursionError."""
    values, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        at += len(text[at : at + 64]) - len(text[at : at + 64].lstrip())
        if value is not None:
            values.append(value)
    return values


def _goes_on(before: JsonValue, value: JsonValue) -> bool:
    """Whether a field's later value is the same, or the text before with more behind it."""
    return value == before or (isinstance(before, str) and isinstance(value, str) and value.startswith(before))

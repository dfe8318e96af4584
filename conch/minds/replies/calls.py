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

_ARGUMENTS = ("arguments", "parameters", "input")
"""Names of the arguments: OpenAI's, Cohere's, Anthropic's."""


@dataclass
class _Call:
    index: int | None
    id: str
    name: str = ""
    parts: list[str] = field(default_factory=list)
    """Parts of the arguments that came as text."""
    objects: list[str] = field(default_factory=list)
    """Objects of arguments, each as JSON text: one with all of them, or several that add up."""

    @property
    def arguments(self) -> str:
        """The arguments as JSON text."""
        if len(self.objects) < 2:
            return "".join(self.parts or self.objects)
        whole: JsonObject = {}
        for text in self.objects:
            whole |= json.loads(text)
        return json.dumps(whole, ensure_ascii=False)

    def add(self, arguments: JsonValue) -> int:
        """Append a part of the arguments; returns its characters. Raises TypeError where its type has no clear
        meaning."""
        if arguments is None or arguments == "":
            return 0
        if arguments == []:  # an empty object as PHP writes it
            arguments = {}
        if isinstance(arguments, dict) and not self.parts:
            text = json.dumps(arguments, ensure_ascii=False)
            self.objects.append(text)
        elif isinstance(arguments, str) and not self.objects:
            text = arguments
            self.parts.append(text)
        else:
            raise TypeError("arguments of a call are no text and no object")
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
        function = part.get("function")
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
        return (index is None and name != last.name) or _is_object(last.arguments)


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
    elif "function" in value or "name" in value:
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
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False

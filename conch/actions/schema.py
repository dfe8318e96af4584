"""JSON Schemas of an action, made from the registry, and the way back from a call to a reply of the grammar.

They keep to the subset of JSON Schema that OpenAI's strict mode takes, and other servers as well: the root is an
object, every object is closed (`additionalProperties: false`), every property is required, an optional argument may be
null, and no two objects of an `anyOf` begin with the same key. That subset has no object with free keys: an argument of
type `object` is a list of `{"key", "value"}`. Items of arrays and values of objects are single values.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue, ValidationError

from conch.actions.grammar import render
from conch.actions.registry import Argument, Registry, ToolSpec
from conch_schemas import Action, JsonObject

WORDS: Final = ("DO_NOTHING", "REFLECT")
"""The kinds of an action that call no tool; as names of calls they are distinct from tools, which are lower case."""
_TEXT: Final = {"DO_NOTHING": "The reason for inaction.", "REFLECT": "The topic to think about."}
_SINGLE: Final[JsonObject] = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}


def json_schema(registry: Registry) -> JsonObject:
    """The schema of an action as an object: `{"action": {NAME: {ARGUMENT: VALUE, …}}}`, where NAME is a tool, or
    DO_NOTHING or REFLECT with a text."""
    calls = [_closed({spec.name: _arguments(spec)}) for spec in registry]
    texts = [_closed({word: {"type": "string", "description": _TEXT[word]}}) for word in WORDS]
    return _closed({"action": {"anyOf": [*calls, *texts]}})


def call_schemas(registry: Registry) -> list[tuple[str, str, JsonObject]]:
    """(name, description, schema of the arguments) of every call that is an action: each tool, DO_NOTHING, REFLECT."""
    calls = [(spec.name, spec.doc, _arguments(spec)) for spec in registry]
    texts = [(word, _TEXT[word], _closed({"text": {"type": "string", "description": _TEXT[word]}})) for word in WORDS]
    return [*calls, *texts]


def from_json(text: str, registry: Registry) -> str | None:
    """The reply of the grammar that an object of `json_schema` means; None for a text that is no such object.

    The one parser decides whether the reply is valid.
    """
    found = _read(text)
    action = found.get("action") if isinstance(found, dict) else None
    if not isinstance(action, dict) or len(action) != 1:
        return None
    [(name, value)] = action.items()
    return from_call(name, {"text": value} if name in WORDS else value, registry)


def from_call(name: str, arguments: JsonValue, registry: Registry) -> str | None:
    """The reply of the grammar that a call means; None where the arguments are no object. `arguments`: an object of the
    call's schema, or its JSON text."""
    found = arguments
    for _ in range(2):  # gateways have encoded the text of the arguments once more
        found = _read(found) if isinstance(found, str) else found
    if not isinstance(found, dict):
        return None
    try:
        if name in WORDS:
            return render(Action.model_validate({"kind": name, "valid": True, "text": found.get("text")}))
        args = _plain(registry[name], found) if name in registry else found
        return render(Action.model_validate({"kind": "TOOL", "valid": True, "tool": name, "args": args}))
    except ValidationError:
        return None


def _read(text: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return found


def _plain(spec: ToolSpec, found: JsonObject) -> JsonObject:
    """The arguments as the tool takes them: those that are null are left out, lists of keys and values are objects."""
    objects = {argument.name for argument in spec.arguments if argument.type == "object"}
    return {name: _object(value) if name in objects else value for name, value in found.items() if value is not None}


def _object(value: JsonValue) -> JsonValue:
    if not isinstance(value, list):
        return value
    return {str(pair["key"]): pair.get("value") for pair in value if isinstance(pair, dict) and "key" in pair}


def _arguments(spec: ToolSpec) -> JsonObject:
    return _closed({argument.name: _argument(argument) for argument in spec.arguments})


def _argument(argument: Argument) -> JsonObject:
    kind = "array" if argument.type == "object" else argument.type
    schema: JsonObject = {"type": kind if argument.required else [kind, "null"]}
    if argument.choices:
        schema["enum"] = [*argument.choices, *([] if argument.required else [None])]
    if argument.type == "array":
        schema["items"] = _SINGLE
    if argument.type == "object":
        schema["items"] = _closed({"key": {"type": "string"}, "value": _SINGLE})
    if argument.doc:
        schema["description"] = argument.doc
    return schema


def _closed(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

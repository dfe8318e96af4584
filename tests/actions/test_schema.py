"""JSON Schemas of an action: they keep to the strict subset, and whatever they admit is a valid reply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Registry, ToolSpec, call_schemas, from_call, from_json, json_schema, parse
from conch.tools import BUILTIN_TOOLS
from conch_schemas import JsonObject
from tests.actions.test_constraint import REGISTRY, SPECS

STRICT = {"type", "properties", "required", "additionalProperties", "anyOf", "items", "enum", "description"}
"""Keywords that OpenAI's strict mode takes."""
SPECS_LISTS = st.lists(SPECS, max_size=4, unique_by=lambda spec: spec.name)
MOST = 2**50


def parts(schema: JsonObject) -> Iterator[JsonObject]:
    """A schema and all those inside it."""
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for one in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from parts(one)


def values(schema: JsonObject) -> st.SearchStrategy[Any]:
    """What a server that holds a model to the schema may let it write."""
    if "anyOf" in schema:
        return st.one_of([values(one) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if isinstance(schema["type"], list):
        return st.one_of([values({**schema, "type": kind}) for kind in schema["type"]])
    plain: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=20),
        "integer": st.integers(-MOST, MOST),
        "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-MOST, MOST),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    if schema["type"] == "array":
        return st.lists(values(schema["items"]), max_size=4)
    if schema["type"] == "object":
        return st.fixed_dictionaries({name: values(one) for name, one in schema["properties"].items()})
    return plain[schema["type"]]


@given(SPECS_LISTS)
def test_the_schemas_of_any_tools_keep_to_the_strict_subset(specs: list[ToolSpec]) -> None:
    """The root is an object; objects are closed and need each property; no two branches begin with the same key."""
    registry = Registry(specs)
    roots = [json_schema(registry), *(schema for _, _, schema in call_schemas(registry))]

    for root in roots:
        jsonschema.Draft202012Validator.check_schema(root)
        assert root["type"] == "object"
        for part in parts(root):
            assert part.keys() <= STRICT
            if part.get("type") == "object":
                assert part["additionalProperties"] is False
                assert part["required"] == list(part["properties"])
            branches = [next(iter(one["properties"])) for one in part.get("anyOf", []) if "properties" in one]
            assert len(set(branches)) == len(branches)


@given(st.data(), SPECS_LISTS)
def test_every_object_of_the_schema_is_a_valid_reply(data: st.DataObject, specs: list[ToolSpec]) -> None:
    """Whatever tools are registered: what the schema admits, written as JSON, reads as an action."""
    registry = Registry(specs)
    written = data.draw(values(json_schema(registry)))

    reply = from_json(json.dumps(written), registry)

    assert reply is not None
    action = parse(reply, registry)
    assert action.valid, (written, reply, action.reason)


@given(st.data(), SPECS_LISTS)
def test_every_call_of_the_schemas_is_a_valid_reply(data: st.DataObject, specs: list[ToolSpec]) -> None:
    """As an object of the schema it is the same action."""
    registry = Registry(specs)
    name, _, schema = data.draw(st.sampled_from(call_schemas(registry)))
    arguments = data.draw(values(schema))

    reply = from_call(name, json.dumps(arguments), registry)

    assert reply is not None
    assert parse(reply, registry).valid
    action = arguments["text"] if name in ("DO_NOTHING", "REFLECT") else arguments
    assert from_json(json.dumps({"action": {name: action}}), registry) == reply


@pytest.mark.parametrize(
    ("written", "reply"),
    [
        ({"file_system": {"operation": "read", "path": None}}, 'TOOL: file_system(operation="read")'),
        ({"file_system": {"operation": 'q"x', "path": "a\nb"}}, r'TOOL: file_system(operation="q\"x", path="a\nb")'),
        (
            {"mix": {"s": None, "i": 3, "n": None, "b": True, "a": [1, "x"], "o": [{"key": "k", "value": 1}]}},
            'TOOL: mix(i=3, b=true, a=[1, "x"], o={"k": 1})',
        ),
        ({"ping": {}}, "TOOL: ping()"),
        ({"DO_NOTHING": "all is well"}, "DO_NOTHING: all is well"),
        ({"REFLECT": ""}, "REFLECT:"),
    ],
)
def test_an_object_means_the_call_that_it_names(written: JsonObject, reply: str) -> None:
    """Null is an argument that is left out; a list of keys and values is an object."""
    assert from_json(json.dumps({"action": written}), REGISTRY) == reply


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "TOOL: ping()",
        "[]",
        "{}",
        '{"action": {}}',
        '{"action": {"ping": {}, "shell": {}}}',
        '{"action": {"ping": 3}}',
        '{"action": {"DO_NOTHING": 3}}',
        '{"action": {"ping": {}',
        "[" * 100_000,
    ],
)
def test_a_text_that_is_no_object_of_the_schema_is_none(text: str) -> None:
    """The caller keeps the text, and the parser says what is wrong with it."""
    assert from_json(text, REGISTRY) is None


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("burn", "{}", "there is no tool burn"),
        ("shell", "{}", "shell needs the argument command"),
        ("shell", '{"command": 3}', "the argument command must be a string"),
        ("shell", '{"command": NaN}', "shell needs the argument command"),
        ("a b(", "{}", "( is missing after the tool's name"),
    ],
)
def test_a_wrong_call_is_left_to_the_parser(name: str, arguments: str, reason: str) -> None:
    """It becomes a reply that is not valid, with the parser's reason."""
    reply = from_call(name, arguments, REGISTRY)

    assert reply is not None
    action = parse(reply, REGISTRY)
    assert not action.valid
    assert str(action.reason).startswith(reason)


def test_the_built_in_tools_have_a_call_each() -> None:
    """Beside them, the two kinds of action that call no tool."""
    registry = Registry(tool.spec for tool in BUILTIN_TOOLS)

    assert [name for name, _, _ in call_schemas(registry)] == [*registry.names, "DO_NOTHING", "REFLECT"]

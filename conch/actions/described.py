"""Arguments of a tool from the JSON Schema by which a server or a data set describes them. Pure.

The schema is foreign: it may be of any dialect, refer to parts of itself, and be wrong. What has one meaning is read,
for anything else there is a reason. The work is bounded, however the references multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote

from pydantic import JsonValue

from conch.actions.registry import ArgumentType
from conch.text import safe_text

R = TypeVar("R")

MOST_PARTS: Final = 1000
"""Most parts of a schema that are read for an argument, each as often as it is referred to."""
MOST_CHOICES: Final = 50
"""Most values of an enumeration that are choices; of more, any text is taken, and the tool checks it."""
LONGEST_CHOICE: Final = 100
"""Most characters of a choice: all of them are in every prompt."""
SHOWN: Final = 60
"""Characters of a value in a reason."""
_FIELD: Final = "field"
_ITEMS: Final = "items"
"""Marks in a trail of references: inside of a field, and of an array's items, references begin anew."""
_TYPES: Final[Mapping[str, ArgumentType]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}
_ALL: Final = frozenset(_TYPES)
_SYNONYMS: Final[Mapping[str, ArgumentType]] = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "dict": "object",
}
"""Names of types in other languages whose meaning is clear; case does not count, some write `STRING`."""
_TOO_DEEP: Final = "its schema is nested too deeply"
_IMPLIED: Final[Mapping[str, ArgumentType]] = {
    "properties": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}
"""Keywords of a schema without a type that are for values of one type."""


class UnreadableSchemaError(Exception):
    """The schema describes no argument that a reply can hold; the message is the reason."""


class DescribedArgument(NamedTuple):
    """An argument as its schema describes it."""

    type: ArgumentType
    choices: tuple[str, ...]
    """Of a text: its only values; empty: any."""
    values: tuple[JsonValue, ...]
    """Of another type: its only values; empty: any."""
    doc: str
    """As it is written: foreign text."""
    fields: str
    """Of an object, or an array of objects: names and types of the fields, as `a: string, b?: integer`."""


class _Shape(NamedTuple):
    """The values that a schema admits, null apart."""

    kinds: frozenset[str]
    values: tuple[JsonValue, ...] | None = None
    """The only values; None: any of the kinds."""
    doc: str = ""
    fields: str = ""


class ToolSchema:
    """The schema of a tool's arguments. Raises UnreadableSchemaError, as every method, where it admits no call."""

    def __init__(self, schema: JsonValue) -> None:
        self._root, self._left = schema, MOST_PARTS
        try:
            self.properties, self.required = self._members(schema, ())
        except RecursionError:
            raise UnreadableSchemaError(_TOO_DEEP) from None
        """The schema of each argument by name, and the names of those that a call has to have."""

    def argument(self, name: str) -> DescribedArgument:
        """The argument of that name. Raises UnreadableSchemaError for one that a reply cannot hold."""
        if name not in self.properties:
            raise UnreadableSchemaError("it is required and not described")
        self._left = MOST_PARTS
        try:
            shape = self._shape(self.properties[name], ())
        except RecursionError:
            raise UnreadableSchemaError(_TOO_DEEP) from None
        kind, values = _one_kind(shape.kinds), shape.values or ()
        texts = tuple(value for value in values if isinstance(value, str))
        is_listed = kind == "string" and len(values) <= MOST_CHOICES and all(map(_is_plain, texts))
        return DescribedArgument(
            kind, texts if is_listed else (), () if kind == "string" else values, shape.doc, shape.fields
        )

    def _members(self, schema: JsonValue, trail: tuple[str, ...]) -> tuple[dict[str, JsonValue], frozenset[str]]:
        """(properties, required names) of an object's schema."""
        self._count()
        if schema is None or schema is True or schema in ({}, []):  # PHP writes an empty object as []
            return {}, frozenset()
        if not isinstance(schema, dict):
            raise UnreadableSchemaError("its input schema admits no call" if schema is False else _no_object(schema))
        properties = schema.get("properties") or {}
        if not properties and "object" not in _kinds(schema):
            raise UnreadableSchemaError(f"its input schema is of the type {_shown(schema['type'])}, not object")
        if not isinstance(properties, dict):
            raise UnreadableSchemaError("the properties of its input schema are no object")
        listed = schema.get("required")
        required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set[str]()
        required |= {name for name, of in properties.items() if isinstance(of, dict) and of.get("required") is True}
        parts = [(properties, frozenset(required))]
        if (target := self._referred(schema, trail)) is not None:
            parts.append(self._members(target, (*trail, str(schema["$ref"]))))
        parts += [self._members(part, trail) for part in _listed(schema, "allOf")]
        for word in ("anyOf", "oneOf"):
            if variants := _listed(schema, word):
                parts.append(_merged(_readable(lambda part: self._members(part, trail), variants), "anyOf"))
        return _merged(parts, "allOf")

    def _shape(self, schema: JsonValue, trail: tuple[str, ...]) -> _Shape:
        self._count()
        if schema is True:
            return _Shape(_ALL)
        if schema is False:
            return _Shape(frozenset())
        if not isinstance(schema, dict):
            raise UnreadableSchemaError(f"its schema is {_shown(schema)}")
        parts = [_own_shape(schema)]
        if (target := self._referred(schema, trail)) is not None:
            parts.append(self._shape(target, (*trail, str(schema["$ref"]))))
        parts += [self._shape(part, trail) for part in _listed(schema, "allOf")]
        for word in ("anyOf", "oneOf"):
            if variants := _listed(schema, word):
                parts.append(reduce(_either, _readable(lambda part: self._shape(part, trail), variants)))
        whole = reduce(_both, parts)
        return whole._replace(fields=whole.fields or self._fields(schema, trail, whole.kinds))

    def _fields(self, schema: dict[str, JsonValue], trail: tuple[str, ...], kinds: frozenset[str]) -> str:
        """The fields of an object, or of the objects in an array; what is inside of a field is not named."""
        if _FIELD in trail:
            return ""
        if kinds == {"array"} and "items" in schema and _ITEMS not in trail:
            try:
                return self._shape(schema["items"], (_ITEMS,)).fields
            except UnreadableSchemaError:
                return ""
        properties = schema.get("properties")
        if kinds != {"object"} or not isinstance(properties, dict):
            return ""
        listed = schema.get("required")
        required = listed if isinstance(listed, list) else ()
        return ", ".join(
            f"{name}{'' if name in required else '?'}: {self._kind_words(of)}"
            for name, of in list(properties.items())[:MOST_CHOICES]
        )

    def _kind_words(self, schema: JsonValue) -> str:
        try:
            shape = self._shape(schema, (_FIELD,))
            if shape.values and len(shape.values) <= MOST_CHOICES:
                return "|".join(map(str, shape.values))
            return _one_kind(shape.kinds)
        except UnreadableSchemaError:
            return "any"

    def _referred(self, schema: dict[str, JsonValue], trail: tuple[str, ...]) -> JsonValue:
        """The part of the schema that `$ref` names; None where there is no reference."""
        reference = schema.get("$ref")
        if reference is None:
            return None
        if not isinstance(reference, str) or (found := _part(self._root, reference)) is None:
            raise UnreadableSchemaError(f"it refers to {_shown(reference)}, which its schema does not hold")
        if reference in trail:
            raise UnreadableSchemaError(f"its reference {_shown(reference)} leads back to itself")
        return found

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise UnreadableSchemaError(f"its schema has more than {MOST_PARTS} parts")


def _own_shape(schema: dict[str, JsonValue]) -> _Shape:
    """What the keywords of the schema itself admit, references and combinations apart."""
    kinds = _kinds(schema)
    given = schema.get("enum")
    values: list[JsonValue] | None = given if isinstance(given, list) and given else None
    if "const" in schema:
        values = [schema["const"]]
    doc = schema.get("description")
    shape = _Shape(kinds, None, doc if isinstance(doc, str) else "")
    if values is None:
        return shape
    fitting = tuple(
        value for at, value in enumerate(values) if _kind_of(value) in kinds and not _is_among(value, values[:at])
    )
    if not fitting and any(value is not None for value in values) and "type" in schema:
        return shape  # the values are of another type, as YAML makes them: the tool checks them
    return shape._replace(kinds=_covered(map(_kind_of, fitting), kinds), values=fitting)


def _kinds(schema: dict[str, JsonValue]) -> frozenset[str]:
    given = schema.get("type")
    if given is None:
        implied = {kind for word, kind in _IMPLIED.items() if word in schema}
        return _covered(implied, _ALL) if len(implied) == 1 else _ALL
    found = set[str]()
    for name in given if isinstance(given, list) else [given]:
        word = name.lower() if isinstance(name, str) else ""
        if word == "any":
            return _ALL
        if (kind := _SYNONYMS.get(word, word)) not in ("null", *_TYPES):
            raise UnreadableSchemaError(f"its type {_shown(name)} is none of JSON's")
        found.add(kind)
    return _covered(found, _ALL)


def _covered(kinds: Iterable[str], most: frozenset[str]) -> frozenset[str]:
    """The kinds without null; a number may be an integer."""
    found = frozenset(kinds)
    return (found | {"integer"} if "number" in found else found) & most


def _both(one: _Shape, other: _Shape) -> _Shape:
    kinds = one.kinds & other.kinds
    values = one.values if other.values is None else other.values
    if one.values is not None and other.values is not None:
        values = tuple(value for value in one.values if _is_among(value, other.values))
    if values is not None:
        values = tuple(value for value in values if _kind_of(value) in kinds)
        kinds = _covered(map(_kind_of, values), kinds)
    return _Shape(kinds, values, one.doc or other.doc, one.fields or other.fields)


def _either(one: _Shape, other: _Shape) -> _Shape:
    if not (one.kinds and other.kinds):
        return one if one.kinds else other  # null, or nothing
    values = None
    if one.values is not None and other.values is not None:
        values = (*one.values, *(value for value in other.values if not _is_among(value, one.values)))
    fields = one.fields if one.fields == other.fields else ""
    return _Shape(one.kinds | other.kinds, values, one.doc or other.doc, fields)


def _one_kind(kinds: frozenset[str]) -> ArgumentType:
    found = sorted(kinds - {"integer"} if "number" in kinds else kinds)
    if len(found) == 1:
        return _TYPES[found[0]]
    if not found:
        raise UnreadableSchemaError("no value fits its schema")
    if len(found) == len(_ALL) - 1:
        raise UnreadableSchemaError("it may be of any type")
    raise UnreadableSchemaError(f"it may be of the types {', '.join(found[:-1])} and {found[-1]}")


def _kind_of(value: JsonValue) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds: Mapping[type, str] = {str: "string", int: "integer", list: "array", dict: "object"}
    return kinds[type(value)]


def _is_among(value: JsonValue, values: Sequence[JsonValue]) -> bool:
    """Equality of JSON: true is not 1."""
    return any(_kind_of(value) == _kind_of(each) and value == each for each in values)


def _is_plain(value: str) -> bool:
    """Whether a text can stand in a prompt as a choice."""
    return 0 < len(value) <= LONGEST_CHOICE and safe_text(value, one_line=True) == value


def _readable(read: Callable[[JsonValue], R], variants: Sequence[JsonValue]) -> list[R]:
    """What is read of the variants, less those that cannot be read. Raises the first reason where none can."""
    found: list[R] = []
    reason = None
    for variant in variants:
        try:
            found.append(read(variant))
        except UnreadableSchemaError as error:
            reason = reason or error
    if reason is not None and not found:
        raise reason
    return found


def _listed(schema: dict[str, JsonValue], word: str) -> list[JsonValue]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _merged(
    parts: Sequence[tuple[dict[str, JsonValue], frozenset[str]]], word: str
) -> tuple[dict[str, JsonValue], frozenset[str]]:
    """The members of all parts; an argument that several describe has to satisfy all (`allOf`) or one (`anyOf`)."""
    described: dict[str, list[JsonValue]] = {}
    for properties, _ in parts:
        for name, schema in properties.items():
            described.setdefault(name, []).append(schema)
    names = [required for _, required in parts]
    required = frozenset().union(*names) if word == "allOf" else names[0].intersection(*names)
    return {name: of[0] if len(of) == 1 else {word: of} for name, of in described.items()}, required


def _part(root: JsonValue, reference: str) -> JsonValue:
    """The part of `root` that a local reference names, by JSON Pointer, anchor or id; None: there is none."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return _named(root, reference)
    found = root
    for step in unquote(reference[2:]).split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and len(key) < 6 and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _named(root: JsonValue, reference: str) -> JsonValue:
    """The definition with this anchor (`#name`) or id."""
    for word in ("$defs", "definitions"):
        definitions = root.get(word) if isinstance(root, dict) else None
        for schema in definitions.values() if isinstance(definitions, dict) else ():
            if isinstance(schema, dict) and (
                reference in (schema.get("$id"), schema.get("id")) or f"#{schema.get('$anchor')}" == reference
            ):
                return schema
    return None


def _no_object(schema: JsonValue) -> str:
    return f"its input schema is {_shown(schema)}, no object"


def _shown(value: JsonValue) -> str:
    return safe_text(repr(value)[: 2 * SHOWN], one_line=True)[:SHOWN]

"""The registry of tools: signatures for the parser, the prompt and the decoding constraints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import JsonValue

from conch.actions.effects import Effects, effect_in
from conch.errors import ContractError
from conch_schemas import Effect

ArgumentType = Literal["string", "integer", "number", "boolean", "array", "object"]

NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
"""Names of tools and of arguments: ASCII letters, digits, underscore."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Greatest integer that every JSON parser reads exactly (RFC 7493)."""

_PYTHON: dict[ArgumentType, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True)
class Argument:
    """One argument of a tool: name, type, allowed values."""

    name: str
    type: ArgumentType = "string"
    required: bool = True
    choices: tuple[str, ...] = ()
    """The only valid values; empty: any value of its type. Strings only."""
    doc: str = ""

    def objection(self, value: JsonValue) -> str | None:
        """Why `value` is invalid for this argument, in one sentence; None if it is valid."""
        if not isinstance(value, _PYTHON[self.type]) or (isinstance(value, bool) and self.type != "boolean"):
            return f"the argument {self.name} must be {_a(self.type)}, not {_a(_type_of(value))}"
        if self.choices and value not in self.choices:
            return f"the argument {self.name} must be one of {', '.join(self.choices)}"
        return None

    def describe(self) -> str:
        """`name: type`, with a question mark if it is optional; choices take the type's place."""
        return f"{self.name}{'' if self.required else '?'}: {'|'.join(self.choices) or self.type}"


@dataclass(frozen=True)
class ToolSpec:
    """A tool's name, description and arguments."""

    name: str
    """Lower case."""
    doc: str
    """Its description for the mind; the first line is enough."""
    arguments: tuple[Argument, ...] = ()
    effects: Effects = field(default_factory=dict, hash=False)
    """What a call may change: `read`, `workspace` or `world` (see `conch.actions.effects`), or one of them for each
    choice of the argument `operation`. An operation that is not named counts as `world` where safety matters."""

    def effect(self, args: Mapping[str, JsonValue]) -> Effect | None:
        """The effect that is declared for a call with `args`; None where there is none."""
        return effect_in(self.effects, args.get("operation"))

    def objection(self, args: Mapping[str, JsonValue]) -> str | None:
        """Why a call with `args` is invalid, in one sentence; None if it is valid."""
        known = {argument.name: argument for argument in self.arguments}
        for name, value in args.items():
            if name not in known:
                return f"{self.name} takes no argument {name}; it takes {', '.join(known) or 'none'}"
            if problem := known[name].objection(value):
                return problem
        missing = [name for name, argument in known.items() if argument.required and name not in args]
        return f"{self.name} needs the argument {missing[0]}" if missing else None

    def describe(self) -> str:
        """The tool as the prompt lists it: signature, description, a line for each documented argument."""
        signature = f"{self.name}({', '.join(argument.describe() for argument in self.arguments)})"
        lines = [f"    {argument.name}: {argument.doc}" for argument in self.arguments if argument.doc]
        return "\n".join([f"- {signature}: {self.doc}", *lines])


@dataclass(frozen=True)
class Registry:
    """The tools by name. Raises ContractError for a name that a reply cannot contain, or that occurs twice."""

    specs: tuple[ToolSpec, ...]
    _by_name: Mapping[str, ToolSpec] = field(init=False, repr=False, compare=False)

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        object.__setattr__(self, "specs", tuple(specs))
        object.__setattr__(self, "_by_name", {spec.name: spec for spec in self.specs})
        for spec in self.specs:
            _check_names(spec)
            _check_effects(spec)
        if len(self._by_name) != len(self.specs):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ContractError(f"there are two tools {twice}: give one of them another name")

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self.specs)

    def __getitem__(self, name: str) -> ToolSpec:
        """The tool of that name; KeyError where there is none."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """In the order given."""
        return tuple(spec.name for spec in self.specs)

    @property
    def skills(self) -> int:
        """Number of tool × operation pairs that a reply can name."""
        operations = (next((a.choices for a in spec.arguments if a.name == "operation"), ()) for spec in self.specs)
        return sum(max(1, len(choices)) for choices in operations)

    def objection(self, tool: str, args: Mapping[str, JsonValue]) -> str | None:
        """Why the call is invalid, in one sentence; None if it is valid."""
        if tool not in self:
            return f"there is no tool {tool}; there are {', '.join(self.names) or 'none'}"
        return self[tool].objection(args)

    def describe(self) -> str:
        """The prompt's list of tools, one entry per tool."""
        return "\n".join(spec.describe() for spec in self.specs)


def _check_names(spec: ToolSpec) -> None:
    if not NAME.fullmatch(spec.name) or spec.name != spec.name.lower():
        raise ContractError(f"a tool cannot be called {spec.name!r}: 1 to 64 small letters, digits and underscores")
    names = [argument.name for argument in spec.arguments]
    for argument in spec.arguments:
        if not NAME.fullmatch(argument.name) or names.count(argument.name) > 1:
            raise ContractError(f"the tool {spec.name} cannot have an argument {argument.name!r}")
        if argument.choices and argument.type != "string":
            raise ContractError(f"the argument {argument.name} of {spec.name} has choices and is no string")


def _check_effects(spec: ToolSpec) -> None:
    declared = {"": spec.effects} if isinstance(spec.effects, str) else dict(spec.effects)
    for effect in declared.values():
        if effect not in get_args(Effect):
            raise ContractError(f"the tool {spec.name} declares the effect {effect!r}: {', '.join(get_args(Effect))}")
    operations = {choice for argument in spec.arguments if argument.name == "operation" for choice in argument.choices}
    if not isinstance(spec.effects, str) and (unknown := sorted(set(declared) - operations)):
        raise ContractError(f"the tool {spec.name} declares an effect of {unknown[0]!r}, which is no operation of it")


def _type_of(value: JsonValue) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return next(name for name, kind in _PYTHON.items() if isinstance(value, kind))


def _a(noun: str) -> str:
    if noun == "null":
        return noun
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"

"""Grammars for structured decoding, made from the registry: the parser accepts every reply that they admit.

They are narrower than the parser: one spelling, arguments in the order of the tool's list; the regular expression and
the GBNF allow arrays and objects of at most MAX_DEPTH.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from conch.actions.grammar import render
from conch.actions.registry import Argument, ArgumentType, Registry, ToolSpec
from conch_schemas import Action

MAX_DEPTH = 2
"""Deepest nesting of arrays and objects; regular expressions cannot nest without end."""

MAX_TEXT = 500
"""Most characters of a reason or topic."""


def _choice(value: str) -> str:
    """A listed value as `render` writes it."""
    written = render(Action(kind="TOOL", valid=True, tool="x", args={"x": value}))
    return written[len("TOOL: x(x=") : -1]


def _optional_tail(parts: Sequence[tuple[Argument, str]], comma: str, some: Callable[[str], str], begun: bool) -> str:
    """`parts` in their order, the optional ones left out or not, with a comma between any two."""
    if not parts:
        return ""
    (argument, written), rest = parts[0], parts[1:]
    after = _optional_tail(rest, comma, some, True)
    if argument.required:
        return (comma if begun else "") + written + after
    if begun:
        return some(comma + written) + after
    return some(written + after) if not rest else f"({written}{after}|{_optional_tail(rest, comma, some, False)})"


def regex(registry: Registry) -> str:
    """A regular expression for whole replies, in the common subset (no look-around, no back-references)."""
    types = _regex_types()

    def value(argument: Argument) -> str:
        listed = "|".join(re.escape(_choice(choice)) for choice in argument.choices)
        return f"({listed})" if listed else types[argument.type]

    def call(spec: ToolSpec) -> str:
        parts = [(argument, f"{argument.name}={value(argument)}") for argument in _ordered(spec)]
        return rf"{spec.name}\({_optional_tail(parts, ', ', lambda part: f'({part})?', False)}\)"

    said = rf"(DO_NOTHING|REFLECT): [^\x00-\x1f\x7f]{{0,{MAX_TEXT}}}"
    calls = "|".join(call(spec) for spec in registry)
    return f"(TOOL: ({calls})|{said})" if calls else said


def _regex_types() -> dict[ArgumentType, str]:
    integer = r"-?(0|[1-9][0-9]{0,14})"
    number = rf"{integer}(\.[0-9]{{1,15}})?"
    json_string = r'"([^"\\\x00-\x1f\x7f]|\\["\\nt])*"'
    item = f"({json_string}|{number}|true|false|null)"
    for _ in range(MAX_DEPTH - 1):
        item = f"({item}|{_regex_array(item)})"
    return {
        "string": json_string,
        "integer": integer,
        "number": number,
        "boolean": "(true|false)",
        "array": _regex_array(item),
        # An object has one key: an expression cannot tell whether a second key repeats the first.
        "object": rf"\{{({json_string}: {item})?\}}",
    }


def _regex_array(item: str) -> str:
    return rf"\[({item}(, {item})*)?\]"


_GBNF_TYPES = r"""
string ::= "\"" charLONGEST "\""
char ::= [^"\\\x00-\x1f\x7f] | "\\" ["\\nt]
integer ::= "-"? ("0" | [1-9] digit digit? digit? digit? digit? digit? digit? digit? digit? digit? digit? digit?)
digit ::= [0-9]
number ::= integer ("." digit digit? digit? digit? digit? digit?)?
boolean ::= "true" | "false"
item ::= string | number | boolean | "null"
nested ::= item | "[" (item (", " item){0,7})? "]"
array ::= "[" (nested (", " nested){0,7})? "]"
object ::= "{" (string ": " nested)? "}"
text ::= [^\x00-\x1f\x7f]LONGEST
""".strip()


def gbnf(registry: Registry, *, longest: int | None = MAX_TEXT) -> str:
    """A grammar for llama.cpp; its start is `root`. `longest`: most characters of each text: without an end (None), a
    small model writes until its tokens are used up."""

    def value(argument: Argument) -> str:
        listed = " | ".join(json.dumps(_choice(choice), ensure_ascii=False) for choice in argument.choices)
        return f"({listed})" if listed else argument.type

    def call(spec: ToolSpec) -> str:
        parts = [(argument, f' "{argument.name}=" {value(argument)}') for argument in _ordered(spec)]
        tail = _optional_tail(parts, ' ", "', lambda part: f" ({part.strip()})?", False)
        return f'tool-{spec.name.replace("_", "-")} ::= "{spec.name}("{tail} ")"'

    names = " | ".join(f"tool-{spec.name.replace('_', '-')}" for spec in registry)
    root = 'root ::= "TOOL: " call | ("DO_NOTHING: " | "REFLECT: ") text'
    if not names:
        root = 'root ::= ("DO_NOTHING: " | "REFLECT: ") text'
    calls = [f"call ::= {names}", *(call(spec) for spec in registry)] if names else []
    return "\n".join([root, *calls, _GBNF_TYPES.replace("LONGEST", "*" if longest is None else f"{{0,{longest}}}"), ""])


def _ordered(spec: ToolSpec) -> list[Argument]:
    """Required arguments first: the comma before each other one can then be part of it."""
    return sorted(spec.arguments, key=lambda argument: not argument.required)

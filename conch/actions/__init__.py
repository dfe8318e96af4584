"""What a mind may say, and the one parser that reads it."""

from conch.actions.constraint import gbnf, json_schema, regex
from conch.actions.effects import BUILTIN_EFFECTS, Effects, effect_of
from conch.actions.grammar import MAX_REPLY_BYTES, parse, render
from conch.actions.registry import Argument, Registry, ToolSpec

__all__ = [
    "BUILTIN_EFFECTS",
    "MAX_REPLY_BYTES",
    "Argument",
    "Effects",
    "Registry",
    "ToolSpec",
    "effect_of",
    "gbnf",
    "json_schema",
    "parse",
    "regex",
    "render",
]

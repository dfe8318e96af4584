"""Actions: the grammar of a mind's replies, its parser, the tool registry, and constraints for decoding."""

from conch.actions.constraint import gbnf, json_schema, regex
from conch.actions.grammar import MAX_REPLY_BYTES, parse, render
from conch.actions.registry import Argument, Registry, ToolSpec

__all__ = [
    "MAX_REPLY_BYTES",
    "Argument",
    "Registry",
    "ToolSpec",
    "gbnf",
    "json_schema",
    "parse",
    "regex",
    "render",
]

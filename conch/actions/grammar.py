r"""The grammar of replies, its parser, and the renderer.

    TOOL: name(arg1="value1", arg2="value2")
    DO_NOTHING: reason for inaction
    REFLECT: topic to think about

Outer white space is trimmed; the three keywords are case-insensitive, the colon follows directly. Values: "…" and '…'
with the escapes of their own quote, `\\`, `\n` and `\t` (any other backslash stands for itself), \"""…\""" without
escapes, numbers, true, false, null, JSON arrays and objects. Everything else is invalid, with a reason.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from pydantic import JsonValue

from conch.actions.registry import MAX_SAFE_INTEGER, NAME, Registry
from conch.text import well_formed
from conch_schemas import Action

MAX_REPLY_BYTES = 64 * 1024
"""Most bytes of a reply in UTF-8; a longer one is refused without being parsed."""

MAX_ENCODED_BYTES = 2 * MAX_REPLY_BYTES
"""Most bytes of a reply encoded as JSON. Only control characters, six bytes each, make a reply that long: an action
must fit into an event beside its output."""

MAX_DEPTH = 32
"""Deepest nesting of arrays and objects."""

MAX_NUMBER_LENGTH = 400
"""Most characters of a number: more than any float has, and less than Python refuses to convert."""

_WORD = re.compile(r"(TOOL|DO_NOTHING|REFLECT):", re.IGNORECASE | re.ASCII)
_SPACE = re.compile(r"[ \t\r\n\f\v]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_STOPS = {quote: re.compile(rf"[\\{quote}]") for quote in "\"'"}
_JSON = json.JSONDecoder()
_LITERALS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}
_ESCAPES = {"\\": "\\", "n": "\n", "t": "\t"}
_WRITTEN = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})

_Word = Literal["TOOL", "DO_NOTHING", "REFLECT"]
_WORDS: dict[str, _Word] = {"TOOL": "TOOL", "DO_NOTHING": "DO_NOTHING", "REFLECT": "REFLECT"}


class _ReplySyntaxError(Exception):
    """The reply violates the grammar; the message is the reason."""


def parse(text: str, registry: Registry | None) -> Action:
    """The reply as an action. Never raises; linear time in `text`; refuses more than MAX_REPLY_BYTES without parsing.

    `registry`: the tools that there are; None: a call of any tool, with any arguments, is valid.

    An invalid action has a reason, and keeps the kind that it began with (INVALID without one), the tool and the
    arguments as far as they were parsed. Lone surrogates are replaced by `�`.
    """
    said = text[: MAX_REPLY_BYTES + 1].strip()
    begun = _WORD.match(said)
    if problem := _too_long(text):
        return Action(kind=_WORDS[begun[1].upper()] if begun else "INVALID", valid=False, reason=problem)
    if begun is None:
        found = "is neither TOOL:, DO_NOTHING: nor REFLECT:" if said else "is empty"
        return Action(kind="INVALID", valid=False, reason=f"the reply {found}")
    kind, rest = _WORDS[begun[1].upper()], well_formed(said[begun.end() :].strip())
    return _CallParser(rest).action(registry) if kind == "TOOL" else Action(kind=kind, valid=True, text=rest)


def render(action: Action) -> str:
    """The action as a reply, on one line if it is a call.

    Parsed again it gives the same action, if it was valid (and the rendering is no longer than a reply may be). An
    invalid one stays invalid: a call ends open after the arguments that were parsed, all else is the empty reply.
    """
    if action.kind == "TOOL":
        args = ", ".join(f"{name}={_written(value)}" for name, value in action.args.items())
        return f"TOOL: {action.tool}({args}{')' if action.valid else ''}" if action.tool else "TOOL:"
    return f"{action.kind}: {action.text or ''}".rstrip() if action.valid else ""


def _too_long(text: str) -> str | None:
    if len(text) > MAX_REPLY_BYTES or len(text.encode(errors="replace")) > MAX_REPLY_BYTES:
        return f"the reply is longer than {MAX_REPLY_BYTES // 1024} KiB"
    encoded = json.dumps(text, ensure_ascii=False).encode(errors="replace")
    return "the reply has too many control characters" if len(encoded) - 2 > MAX_ENCODED_BYTES else None


def _written(value: JsonValue) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_WRITTEN)}"'
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


class _CallParser:
    """Parses `name(arg=value, …)` from left to right, and keeps what it has parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.tool: str | None = None
        self.args: dict[str, JsonValue] = {}

    def action(self, registry: Registry | None) -> Action:
        try:
            self._read()
            reason = None if registry is None else registry.objection(self.tool or "", self.args)
        except _ReplySyntaxError as refused:
            reason = str(refused)
        if reason is not None or self.tool is None:
            return Action(kind="TOOL", valid=False, reason=reason, tool=self.tool, args=self.args)
        effect = None if registry is None else registry[self.tool].effect(self.args)
        return Action(kind="TOOL", valid=True, tool=self.tool, args=self.args, declared_effect=effect)

    def _read(self) -> None:
        self.tool = self._name("the tool's name").lower()
        self._expect("(", "after the tool's name")
        if not self._took(")"):
            self._argument()
            while self._took(","):
                self._argument()
            self._expect(")", "after the last argument")
        self._space()
        if self.at < len(self.text):
            raise _ReplySyntaxError("there is text after the closing parenthesis")

    def _argument(self) -> None:
        name = self._name("an argument's name")
        self._expect("=", f"after {name}: arguments are written name=value")
        if name in self.args:
            raise _ReplySyntaxError(f"the argument {name} is there twice")
        self._space()
        self.args[name] = self._value()

    def _value(self) -> JsonValue:
        quote = self.text[self.at : self.at + 1]
        if self.text.startswith('"""', self.at):
            return self._raw_string()
        return self._string(quote) if quote in _STOPS else self._json(0)

    def _raw_string(self) -> str:
        end = self.text.find('"""', self.at + 3)
        if end < 0:
            raise _ReplySyntaxError('a """ is not closed')
        value = self.text[self.at + 3 : end]
        self.at = end + 3
        return value

    def _string(self, quote: str) -> str:
        pieces: list[str] = []
        start = self.at + 1
        while stop := _STOPS[quote].search(self.text, start):
            pieces.append(self.text[start : stop.start()])
            if stop[0] == quote:
                self.at = stop.end()
                return "".join(pieces)
            escaped = self.text[stop.end() : stop.end() + 1]
            pieces.append(quote if escaped == quote else _ESCAPES.get(escaped, f"\\{escaped}"))
            start = stop.end() + 1
        raise _ReplySyntaxError(f"a {quote} is not closed")

    def _json(self, depth: int) -> JsonValue:
        """A strict JSON value; its strings have JSON's own escapes."""
        if depth > MAX_DEPTH:
            raise _ReplySyntaxError(f"arrays and objects go more than {MAX_DEPTH} deep")
        begin = self.text[self.at : self.at + 1]
        if begin == "[":
            return self._array(depth)
        if begin == "{":
            return self._object(depth)
        if begin == '"':
            return self._json_string()
        return self._number() if begin == "-" or begin.isdecimal() else self._literal()

    def _array(self, depth: int) -> list[JsonValue]:
        items: list[JsonValue] = []
        self.at += 1
        if self._took("]"):
            return items
        while True:
            self._space()
            items.append(self._json(depth + 1))
            if not self._took(","):
                self._expect("]", "after the last item of an array")
                return items

    def _object(self, depth: int) -> dict[str, JsonValue]:
        items: dict[str, JsonValue] = {}
        self.at += 1
        if self._took("}"):
            return items
        while True:
            self._space()
            key = self._json_string()
            if key in items:
                raise _ReplySyntaxError("an object has a key twice")
            self._expect(":", "after an object's key")
            self._space()
            items[key] = self._json(depth + 1)
            if not self._took(","):
                self._expect("}", "after the last item of an object")
                return items

    def _json_string(self) -> str:
        if not self.text.startswith('"', self.at):
            raise _ReplySyntaxError('an object\'s key must be in "double quotes"')
        try:
            value, self.at = _JSON.raw_decode(self.text, self.at)
        except ValueError as error:
            raise _ReplySyntaxError(f"a string in an array or object is not JSON: {error}") from None
        return well_formed(value)

    def _number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if found is None or found.end() - found.start() > MAX_NUMBER_LENGTH:
            raise _ReplySyntaxError("a number is not written as in JSON, or is too long")
        self.at = found.end()
        value = float(found[0]) if found[1] or found[2] else int(found[0])
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise _ReplySyntaxError("a number is too large")
        if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
            raise _ReplySyntaxError(
                f"an integer is beyond ±{MAX_SAFE_INTEGER}, so not every reader would read it exactly"
            )
        return value

    def _literal(self) -> JsonValue:
        found = NAME.match(self.text, self.at)
        if found is None or found[0] not in _LITERALS:
            raise _ReplySyntaxError("a value is missing or is not quoted")
        self.at = found.end()
        return _LITERALS[found[0]]

    def _name(self, what: str) -> str:
        self._space()
        found = NAME.match(self.text, self.at)
        if found is None:
            raise _ReplySyntaxError(f"{what} is missing")
        self.at = found.end()
        return found[0]

    def _expect(self, mark: str, where: str) -> None:
        if not self._took(mark):
            raise _ReplySyntaxError(f"{mark} is missing {where}")

    def _took(self, mark: str) -> bool:
        self._space()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += 1
        return True

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

"""Reads conch.yaml, in a restricted subset of YAML, with the line of every key.

A value without quotes is text; the setting's type decides its meaning, as for the environment. This avoids the known
traps: `off` and `no` are no booleans, `1e-5` is a number where a number is expected, and a model may be named `3.5` or
`2024-01-01`. A key without a value counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from conch.config.source import KeyPath, SettingsLayer, dotted
from conch.errors import ConfigError
from conch.files import open_plain
from conch_schemas import JsonObject

MAX_BYTES = 1024 * 1024
"""Most bytes of a configuration file."""
MAX_VALUES = 10_000
"""Most values in one file."""
MAX_DEPTH = 16
"""Deepest nesting."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def read_file(file: Path) -> SettingsLayer:
    """The settings in a file; none in an empty one. Raises ConfigError with the line."""
    try:
        with open_plain(file) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{file} is larger than {MAX_BYTES // 2**20} MiB: that is no configuration")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file} line {line}: this is not UTF-8; save the file as UTF-8") from None
    document = YamlDocument(text, str(file))
    values = document.read()
    if values is None:
        return SettingsLayer({}, {})
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must hold settings (key: value), but holds a {_kind(values)}")
    return SettingsLayer(values, document.places)


def read_text(text: str, name: str) -> Any:
    """One value in the file's syntax, called `name` in errors. Raises ConfigError."""
    return YamlDocument(text, name).read()


def _leaves_out(path: KeyPath) -> bool:
    """Whether null below this key leaves something out that is there by default; elsewhere it is as good as no key."""
    return len(path) == 3 and (path[0], path[2]) == ("team", "roles")


class YamlDocument:
    """One document, built from the parser's events: no object is constructed, and depth and number are bounded.

    Not `yaml.load`: it loses lines, accepts duplicate keys, and recurses without a limit
    (libyaml's ends the process with a segmentation fault at a hundred thousand brackets).
    """

    def __init__(self, text: str, name: str) -> None:
        self.places: dict[KeyPath, str] = {}
        self._text, self._name = text, name
        self._left = MAX_VALUES

    def read(self) -> Any:
        """The value, None for an empty document. Raises ConfigError. May be called once."""
        events: Iterator[Any] = yaml.parse(self._text, Loader=yaml.BaseLoader)
        try:
            next(events)
            if isinstance(next(events), yaml.StreamEndEvent):
                return None
            value = self._value(next(events), events, ())
            next(events)
            if not isinstance(event := next(events), yaml.StreamEndEvent):
                raise self._error(event.start_mark, "a second document (---) begins; a file holds one")
        except yaml.reader.ReaderError as error:
            line = self._text.count("\n", 0, error.position) + 1
            raise ConfigError(f"{self._name} line {line}: there is a control character") from None
        except yaml.MarkedYAMLError as error:
            raise self._error(error.problem_mark, _problem(error)) from None
        return value

    def _value(self, event: Any, events: Iterator[Any], path: KeyPath) -> Any:
        self._check(event, path)
        if isinstance(event, yaml.ScalarEvent):
            return None if event.style is None and event.value in _NULLS else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(events, path)
        return self._mapping(events, path)

    def _list(self, events: Iterator[Any], path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            here = (*path, len(items))
            self.places[here] = self._place(event.start_mark)
            items.append(self._value(event, events, here))
        return items

    def _mapping(self, events: Iterator[Any], path: KeyPath) -> JsonObject:
        values: JsonObject = {}
        keys: dict[str, int] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key, here = self._key(event, path)
            if key in keys:
                raise self._error(event.start_mark, f"{dotted(here)} stands there twice (before: line {keys[key]})")
            keys[key] = event.start_mark.line + 1
            value = self._value(next(events), events, here)
            if value is not None or _leaves_out(path):
                values[key] = value
                self.places[here] = self._place(event.start_mark)
        return values

    def _key(self, event: Any, path: KeyPath) -> tuple[str, KeyPath]:
        self._check(event, path)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event.start_mark, "a key must be one word, not a list or a mapping")
        return event.value, (*path, event.value)

    def _check(self, event: Any, path: KeyPath) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error(event.start_mark, f"there are more than {MAX_VALUES} values: that is no configuration")
        if len(path) > MAX_DEPTH:
            raise self._error(event.start_mark, f"the nesting is deeper than {MAX_DEPTH}: that is no configuration")
        if getattr(event, "anchor", None) is not None:
            raise self._error(event.start_mark, "anchors (&, *) are not taken; put a value that begins so in quotes")
        if getattr(event, "tag", None) is not None:
            raise self._error(event.start_mark, "tags (!) are not taken; put a value that begins with ! in quotes")

    def _place(self, mark: Any) -> str:
        return f"{self._name} line {mark.line + 1}"

    def _error(self, mark: Any, what: str) -> ConfigError:
        return ConfigError(f"{self._place(mark) if mark else self._name}: {what}")


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "single value"


def _problem(error: yaml.MarkedYAMLError) -> str:
    """The parser's message without any piece of the text longer than a character: it may be a secret."""
    problem = error.problem or "this is no YAML"
    if "'\\t'" in problem:
        return "there is a tab where blanks are wanted; indent with blanks"
    if "mapping values are not allowed" in problem:
        return "a second colon, or an indentation that does not fit; put a value with ': ' in quotes"
    return re.sub(r"'([^']*)'", lambda quoted: quoted[0] if len(quoted[1]) < 4 or quoted[1][0] == "<" else "…", problem)

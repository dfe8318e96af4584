"""Edits one table of conch.yaml in place: all other text, including comments, stays unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from conch.config.yaml_file import MAX_BYTES, read_file, read_text
from conch.errors import ConfigError
from conch.home import write_whole

Edit = tuple[int, int, str]
"""(start, end, text): the characters from start to end are replaced by the text."""

SECTION, KEY = "rewards", "weights"
INDENT = 2
_COMMENTED = re.compile(rf"^( +)#{KEY}:[ \t]*\r?\n", re.MULTILINE)
"""The key as `conch init` comments it out."""


def write_weights(file: Path, weights: Mapping[str, float] | None) -> None:
    """Write `rewards.weights` into the file, or remove it (None); a missing file is created.

    The write is atomic and keeps the file's mode. Raises ConfigError where the file cannot be read or written, or its
    layout cannot be edited safely.
    """
    file = file.resolve()
    try:
        data = file.read_bytes() if file.exists() else b""
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        if data:
            read_file(file)
        text = with_weights(data.decode(), weights, str(file))
        if len(text) > MAX_BYTES:
            raise ConfigError(f"{file} would become larger than {MAX_BYTES // 2**20} MiB")
        write_whole(file, text, mode)
    except OSError as error:
        raise ConfigError(f"{file} cannot be changed ({error.strerror}): mend that, then again") from error


def with_weights(text: str, weights: Mapping[str, float] | None, name: str) -> str:
    """The text of a valid conch.yaml with `rewards.weights` as given. Raises ConfigError, naming the file `name`."""
    bom, plain = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    if plain and not plain.endswith("\n"):
        plain += "\n"
    changed = bom + _edited(plain, _edits(plain, weights, name))
    before, after = read_text(text, name) or {}, read_text(changed, name) or {}
    section = {key: value for key, value in (before.get(SECTION) or {}).items() if key != KEY}
    if weights is not None:
        section[KEY] = {part: _number(weight) for part, weight in weights.items()}
    if _whole(before | {SECTION: section}) != _whole(after):
        raise _by_hand(name)
    return changed


def _whole(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value or key != SECTION}


def _by_hand(name: str) -> ConfigError:
    return ConfigError(f"{name} is laid out so that it cannot be changed in place: edit {SECTION}.{KEY} by hand")


def _edited(text: str, edits: Iterator[Edit]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    for start, end, put in sorted(edits, reverse=True):
        text = text[:start] + put.replace("\n", newline) + text[end:]
    return text


def _edits(text: str, weights: Mapping[str, float] | None, name: str) -> Iterator[Edit]:
    root: Any = yaml.compose(text, Loader=yaml.BaseLoader)
    section = _entry(root, SECTION)
    table = _entry(section[1], KEY) if section is not None else None
    if table is not None and "#" in _source(text, table[1]) and table[1].flow_style:
        raise _by_hand(name)
    if table is None:
        return _put_in(text, root, section, weights) if weights is not None else iter(())
    key, value = table
    if weights is None:
        return _taken_out(text, section[1], key, value)
    return _changed(text, key, value, weights)


def _put_in(text: str, root: Any, section: Any, weights: Mapping[str, float]) -> Iterator[Edit]:
    """Insert a table where there was none."""
    if section is None:
        if isinstance(root, yaml.MappingNode) and root.flow_style:
            yield (at := root.start_mark.index + 1), at, f"{SECTION}: {{{KEY}: {_flow(weights)}}}, "
        else:
            yield len(text), len(text), f"{SECTION}:\n{_block(weights, INDENT)}"
        return
    key, value = section
    if isinstance(value, yaml.MappingNode) and value.flow_style:
        yield (at := value.start_mark.index + 1), at, f"{KEY}: {_flow(weights)}" + (", " if value.value else "")
        return
    first = value.value[0][0].start_mark if isinstance(value, yaml.MappingNode) else None
    behind = (one.start_mark.index for one, _ in root.value if one.start_mark.index > key.start_mark.index)
    hint = _COMMENTED.search(text, key.end_mark.index, min(behind, default=len(text)))
    indent = first.column if first is not None else len(hint[1]) if hint is not None else INDENT
    if hint is not None and len(hint[1]) == indent:
        yield hint.start(), hint.end(), _block(weights, indent)
        return
    if first is None:
        yield value.start_mark.index, value.end_mark.index, ""  # a `~`
    at = _line_end(text, key.end_mark.index) if first is None else first.index - first.column
    yield at, at, _block(weights, indent)


def _changed(text: str, key: Any, value: Any, weights: Mapping[str, float]) -> Iterator[Edit]:
    """Change the existing table to these weights."""
    if not isinstance(value, yaml.MappingNode):
        yield value.start_mark.index, value.end_mark.index, ""
        at = _line_end(text, key.end_mark.index)
        yield at, at, _lines(weights, key.start_mark.column + INDENT)
        return
    if value.flow_style:
        yield value.start_mark.index, value.end_mark.index, _flow(weights)
        return
    indent = value.start_mark.column
    for part, weight in value.value:
        if part.value in weights:
            yield weight.start_mark.index, weight.end_mark.index, _number(weights[part.value])
        else:
            yield part.start_mark.index - indent, _line_end(text, weight.end_mark.index), ""
    there = {part.value for part, _ in value.value}
    at = _line_end(text, value.value[-1][1].end_mark.index)
    yield at, at, _lines({part: weight for part, weight in weights.items() if part not in there}, indent)


def _taken_out(text: str, section: Any, key: Any, value: Any) -> Iterator[Edit]:
    """Remove the table; its key stays as a comment if it had a line of its own."""
    if section.flow_style:
        after = [one.start_mark.index for one, _ in section.value if one.start_mark.index > key.start_mark.index]
        before = [one.end_mark.index for _, one in section.value if one.end_mark.index < key.start_mark.index]
        start = key.start_mark.index if after or not before else max(before)
        yield start, min(after) if after else value.end_mark.index, ""
        return
    start = key.start_mark.index - key.start_mark.column
    block = isinstance(value, yaml.MappingNode) and not value.flow_style
    last = value.value[-1][1] if block else value
    inside = text[start : _line_end(text, last.end_mark.index)].splitlines(keepends=True)[1:]
    comments = "".join(line for line in inside if line.lstrip().startswith("#")).replace("\r\n", "\n")
    yield start, _line_end(text, last.end_mark.index), " " * key.start_mark.column + f"#{KEY}:\n" + comments


def _entry(mapping: Any, key: str) -> Any:
    """(key, value) as nodes; None where there is none."""
    entries = mapping.value if isinstance(mapping, yaml.MappingNode) else ()
    return next((entry for entry in entries if entry[0].value == key), None)


def _source(text: str, node: Any) -> str:
    return text[node.start_mark.index : node.end_mark.index]


def _line_end(text: str, index: int) -> int:
    """The index at which the next line begins."""
    return text.find("\n", index) + 1 or len(text)


def _block(weights: Mapping[str, float], indent: int) -> str:
    return f"{' ' * indent}{KEY}:\n{_lines(weights, indent + INDENT)}"


def _lines(weights: Mapping[str, float], indent: int) -> str:
    return "".join(f"{' ' * indent}{part}: {_number(weight)}\n" for part, weight in weights.items())


def _flow(weights: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{part}: {_number(weight)}" for part, weight in weights.items()) + "}"


def _number(weight: float) -> str:
    return repr(float(weight))

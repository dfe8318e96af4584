"""Writes the text of a new conch.yaml: every key with its description and default, generated from the model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from conch.config.keys import entry_model, is_model
from conch.config.model import Settings, TeamSettings
from conch_schemas import Goal, JsonObject

WIDTH = 100

_HEAD = """\
# The settings of Conch. What is commented out is the default: take the # away and change it.
# The environment comes before this file (CONCH_MIND__MODEL is mind.model), the command line before both.
# What is behind ## is an example of an entry: take both away, and write names and values of your own.
# `conch config show` says what is in force and why; `conch config validate` reads this file.
"""


_EXAMPLES: dict[str, tuple[str, JsonObject]] = {
    "parts": ("kindness", {}),
    "judges": ("tone", {"rubric": "tone.md"}),
    "own": ("rest", {"priority": 1.0, "start": 0.5}),
    "senses": ("kitchen", {"topic": "home/kitchen/temperature", "unit": "°C"}),
    "mcp": ("files", {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/files"]}),
    "tools": ("read_file", {"effects": "read"}),
    "team": ("crew", {}),
    "roles": ("planner", {"prompt": TeamSettings().roles["planner"].prompt}),
    "actuators": ("lamp", {"topic": "home/lamp/set", "payloads": ["on", "off"]}),
}
"""For each key with structured entries an example entry: its name, and values for keys without a usable default."""


def commented(*, workspace: Path | None = None, goals: Sequence[Goal] = ()) -> str:
    """A whole file: all keys commented out, except the given `workspace` and `goals`.

    Prose follows `# `, a key follows `#` alone, an example entry and its prose follow `##`. The file as it is gives the
    defaults; it does so too with one `#` removed before every key.
    """
    given: JsonObject = {}
    if workspace is not None:
        given["workspace"] = str(workspace)
    if goals:
        given["goals"] = [goal.model_dump(mode="json", exclude_none=True) for goal in goals]
    return "\n".join([_HEAD, *_section(Settings, given, "")])


def _section(model: type[BaseModel], given: JsonObject, indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield from _prose(field, f"{indent}# ")
        default = field.get_default(call_default_factory=True)
        if is_model(field.annotation):
            yield f"{indent}{name}:"
            yield from _section(field.annotation, {}, f"{indent}  ")
        elif name in given:
            yield _yaml({name: given[name]})
        else:
            yield from _key(name, default, f"{indent}#")
        if (entry := entry_model(field.annotation)) is not None:
            yield from textwrap.indent("\n".join(_example(name, entry)), f"{indent}##").splitlines()
        if not indent:
            yield ""


def _example(name: str, model: type[BaseModel]) -> Iterator[str]:
    """The key with one complete entry."""
    entry, given = _EXAMPLES[name]
    yield f"{name}:"
    yield f"  {entry}:"
    for key, field in model.model_fields.items():
        yield from _prose(field, "    # ")
        if key not in given and (inner := entry_model(field.annotation)) is not None:
            yield from textwrap.indent("\n".join(_example(key, inner)), "    ").splitlines()
            continue
        if key not in given and is_model(field.annotation):
            yield f"    {key}:"
            yield from _spelled(field.annotation, "      ")
            continue
        yield from _key(key, given[key] if key in given else field.get_default(call_default_factory=True), "    ")


def _spelled(model: type[BaseModel], indent: str) -> Iterator[str]:
    """The keys of a section within an example entry, each with its default."""
    for key, field in model.model_fields.items():
        yield from _prose(field, f"{indent}# ")
        yield from _key(key, field.get_default(call_default_factory=True), indent)


def _prose(field: FieldInfo, before: str) -> list[str]:
    return textwrap.wrap(field.description or "", WIDTH, initial_indent=before, subsequent_indent=before)


def _key(name: str, value: Any, before: str) -> list[str]:
    if value is None:
        return [f"{before}{name}:"]
    plain = list(value) if isinstance(value, tuple) else value
    return textwrap.indent(_yaml({name: plain}), before).splitlines()


def _yaml(values: JsonObject) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=WIDTH).rstrip("\n")

"""Documents as they were recorded once: a test holds what is printed or answered now against them, byte by byte.

`CONCH_RECORD=1` in the environment of pytest writes them anew: for a document that is new or that changed on purpose.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path

import conch.views
from conch.views.base import View

RECORD = os.environ.get("CONCH_RECORD") == "1"
"""Read before any test clears the environment."""
_VOLATILE = (
    *("us", "ms", "per_second", "seconds", "fsync_ms", "bytes", "used", "free", "share", "pid", "epoch", "first_time"),
    *("last_time", "warning", "key", "content", "previous", "hash"),
)
"""Keys whose values differ from run to run or from machine to machine."""
_VALUE = re.compile(rf'"({"|".join(_VOLATILE)})":( ?)(-?[0-9][0-9.e+-]*|"(?:[^"\\]|\\.)*")')
_FULL = re.compile(r'"full": ?[0-9.e-]+')
"""The stream's share of its room: its bytes differ from run to run."""
_FACT = re.compile(r'("[a-z.]+ [^"\\\\]+": ?")[0-9a-f]{64}"')
"""A sealed fact with its hash, which is of an event with a time."""
_DRAWN = re.compile(r'(?<="goal":)( ?"[a-z-]+)-[0-9a-f]{4}(?=")|(?<=conch\.v1\.told", "id":) "[0-9a-f-]{36}(?=")')
"""Ids that are drawn: of a goal that was added, of a message to an agent that does not run."""
_TIME = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{6,9})?(\+00:00|Z)")
_NOON = "2026-11-20T1"
"""Begins the times that tests made up: they stay."""


def validated(text: str) -> str:
    """A document as it came; asserts that it is what its model says, field by field."""
    for line in filter(None, text.split("\n")):
        document = json.loads(line)
        models = [model for model in documents() if _kind_of(model) == document.get("schema", _kind_of(model))]
        shown = [model.model_validate_json(line).document() for model in models if _fits(model, document)]
        assert shown == [document], line[:200]
    return text


def documents() -> list[type[View]]:
    """The models of all documents, and of the lines of streams, which name no kind."""
    for module in pkgutil.iter_modules(conch.views.__path__, "conch.views."):
        importlib.import_module(module.name)
    named = [model for model in _below(View) if "schema_" in model.model_fields]
    return [*named, *(model for model in _below(View) if model.__name__ in ("CycleRow", "StoredEvent", "StoredBytes"))]


def _below(model: type[View]) -> list[type[View]]:
    return [one for kind in model.__subclasses__() for one in (kind, *_below(kind))]


def _kind_of(model: type[View]) -> str | None:
    field = model.model_fields.get("schema_")
    return None if field is None else str(field.default)


def _fits(model: type[View], document: Mapping[str, object]) -> bool:
    return set(document) == {field.alias or name for name, field in model.model_fields.items()}


def settled(text: str, names: Mapping[str, str]) -> str:
    """A document without what differs from run to run: such a value is replaced by its kind, `names` by their words."""
    for told, word in names.items():
        text = text.replace(told, word)
    text = _FULL.sub('"full":<float>', text)
    text = _VALUE.sub(lambda found: f'"{found[1]}":{found[2]}<{_kind(found[3])}>', text)
    text = _FACT.sub(r'\1<sha256>"', text)
    text = _TIME.sub(lambda found: found[0] if found[0].startswith(_NOON) else _clock(found[0]), text)
    text = _DRAWN.sub(lambda found: f"{found[1] or ''}<id>", text)
    return re.sub(r"127\.0\.0\.1:[0-9]+", "127.0.0.1:PORT", text).rstrip("\n")


def _kind(value: str) -> str:
    return "text" if value.startswith('"') else "number" if value.isdigit() or value == "0" else "float"


def _clock(time: str) -> str:
    return f"<time{'Z' if time.endswith('Z') else '+00:00'}>"


def compare(file: Path, found: Mapping[str, str]) -> None:
    """Assert that each document is the recorded one, and that the recorded ones are all there."""
    if RECORD:
        file.write_text("".join(f"{json.dumps([name, text], ensure_ascii=True)}\n" for name, text in found.items()))
    recorded = dict(json.loads(line) for line in file.read_text().splitlines())
    assert list(found) == list(recorded)
    for name, text in found.items():
        assert text == recorded[name], name

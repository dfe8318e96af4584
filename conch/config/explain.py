"""Turns a validation error into one sentence with its place. It never shows a value: it may be a secret."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from conch.config.keys import is_model, located, nearest
from conch.config.source import KeyPath, SettingsLayer, dotted
from conch.errors import ConfigError

_WORDS = {
    "missing": "is missing",
    "model_type": "must hold keys of its own (key: value)",
    "dict_type": "must hold keys of its own (key: value)",
    "tuple_type": "must be a list",
    "finite_number": "must be a finite number",
    "union_tag_not_found": "needs a kind",
}


def explain(error: ValidationError, sources: Sequence[SettingsLayer]) -> ConfigError:
    """The first error: place, key, problem, and for an unknown key the nearest known one."""
    first, *others = error.errors(include_url=False, include_input=False)
    path, holder = located(first["loc"])
    place = _place(path, sources, of_parts=first["type"] == "value_error")
    more = f" (and {len(others)} more)" if others else ""
    sentence = f"{dotted(path)} {_what(first, path, holder)}{more}".lstrip()
    return ConfigError(f"{place}: {sentence}" if place else sentence)


def _place(path: KeyPath, sources: Sequence[SettingsLayer], *, of_parts: bool) -> str | None:
    """The place in the strongest layer with a value there; `of_parts`: the error is about several values together."""
    places = [source.place(path) for source in reversed(sources)]
    parts = [source.part(path) for source in reversed(sources)]
    return next(filter(None, (*parts, *places) if of_parts else (*places, *parts)), None)


def _what(error: Any, path: KeyPath, holder: Any) -> str:
    kind, message = error["type"], error["msg"]
    if kind == "extra_forbidden":
        meant = " or ".join(dotted(key) for key in nearest(path, holder))
        return f"is no setting; did you mean {meant}?" if meant else "is no setting (conch config show lists all)"
    if kind == "value_error":
        said = message.removeprefix("Value error, ")
        if said.startswith("must "):
            return str(said)
        return f"cannot be: {said}" if path else said
    if kind in _WORDS:
        return _WORDS[kind]
    words = re.sub(r"^(Input|String|Value) should ", "must ", message)
    field = holder.model_fields.get(str(path[-1])) if is_model(holder) else None
    return f"{words} ({field.description.rstrip('.')})" if field and field.description else words

"""Reads the values file once, and verifies its signature with the key in the settings."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from conch.config import KeyPath, YamlDocument, dotted, read_named
from conch.errors import ConfigError
from conch.values.model import Values

if TYPE_CHECKING:
    from conch.config.model import ValuesSettings

BUILTIN = Path(__file__).parent / "values.yaml"
"""The values used where no file is configured. They come with the package and need no signature."""
MOST_BYTES = 64 * 1024
"""Most bytes: all of it is in every prompt."""


def in_force(settings: ValuesSettings) -> Values:
    """The values of a run. Called once per run, before its first process starts.

    Raises ConfigError, one sentence, for a file that is missing or invalid, and for one that was changed since it was
    signed.
    """
    if settings.file is None:
        return read_values(BUILTIN)
    from conch.values.signing import check  # libsodium, only here

    file = Path(settings.file)
    data = _bytes(file)
    assert settings.key is not None
    check(data, file, settings.key)
    return _parsed(data, file)


def read_values(file: Path) -> Values:
    """The values in a file, signed or not. Raises ConfigError with the line."""
    return _parsed(_bytes(file), file)


def _bytes(file: Path) -> bytes:
    return read_named("values.file", file, MOST_BYTES, holds="the values", why="every prompt carries it along")


def _parsed(data: bytes, file: Path) -> Values:
    try:
        document = YamlDocument(data.decode("utf-8-sig"), str(file))
    except UnicodeDecodeError:
        raise ConfigError(f"values.file: {file} is no text in UTF-8: save it as that") from None
    said = document.read()
    if said is None or not isinstance(said, dict):
        raise ConfigError(f"values.file: {file} must hold values and guardrails: conch values new writes one to edit")
    if "digest" in said:
        raise ConfigError(f"{document.places['digest',]}: digest is none of its keys: it is taken from the file itself")
    try:
        return Values.model_validate(said | {"digest": hashlib.sha256(data).hexdigest()})
    except ValidationError as error:
        raise _explained(error, document, file) from None


def _explained(error: ValidationError, document: YamlDocument, file: Path) -> ConfigError:
    first = error.errors(include_url=False, include_input=False)[0]
    path: KeyPath = tuple(part for part in first["loc"] if part != "[key]")
    known = (document.places.get(path[:length]) for length in range(len(path), 0, -1))
    place = next(filter(None, known), str(file))
    unknown = first["type"] == "extra_forbidden"
    what = "is none of its keys" if unknown else first["msg"].removeprefix("Value error, ")
    return ConfigError(f"{place}: {dotted(path)} {what}" if path else f"{place}: {what}")

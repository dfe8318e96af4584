"""The file of the values: read once, its signature held against the key that the settings name."""

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
"""What holds where no file is named. It comes with the package and needs no signature."""
MOST_BYTES = 64 * 1024
"""The mind is told all of it, in every prompt."""


def in_force(settings: ValuesSettings) -> Values:
    """The values of a run. Whoever lets an agent act asks once, before its first process.

    Raises ConfigError, one sentence, for a file that is not there or holds something else, and for one that was
    changed since it was signed.
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
    """What a file says, signed or not. Raises ConfigError with the line."""
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

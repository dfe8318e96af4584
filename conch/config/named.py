"""Reads files that settings name: once, with a size limit, each failure as one sentence."""

from __future__ import annotations

from pathlib import Path

from conch.errors import ConfigError
from conch.files import open_plain


def read_named(setting: str, file: Path, most: int, *, holds: str, why: str) -> bytes:
    """The content of the file that `setting` names: it `holds` something, at most `most` bytes for the reason `why`.

    Raises ConfigError where it cannot be read or is longer.
    """
    try:
        with open_plain(file) as stream:
            found = stream.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{setting}: {file} cannot be read ({problem}): name the file of {holds}") from None
    if len(found) > most:
        raise ConfigError(f"{setting}: {file} is longer than {most // 1024} KiB: {why}")
    return found

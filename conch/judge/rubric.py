"""Reads a judge's rubric from its text file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conch.config import read_named
from conch.errors import ConfigError

MOST_BYTES: Final = 64 * 1024
"""Most bytes of a rubric's file: it is part of every question."""


def read_rubric(name: str, file: str) -> str:
    """The rubric of the judge `name`, without the white space around it.

    Raises ConfigError, one sentence, for a file that is missing, empty, longer than 64 KiB, or not text.
    """
    where, path = f"rewards.judges.{name}.rubric", Path(file)
    found = read_named(where, path, MOST_BYTES, holds="the rubric", why="every question carries it along")
    try:
        text = found.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ConfigError(f"{where}: {file} is no text in UTF-8: write the rubric as plain text")
    if not text:
        raise ConfigError(f"{where}: {file} is empty: write into it what the judge is to look at")
    return text

"""A home without anything in it, and its conch.yaml read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.config import Settings
from conch.config.load import load
from conch.errors import ConfigError
from conch.home import Home


class Read(Protocol):
    """Reads a conch.yaml."""

    def __call__(self, text: str | bytes, **overrides: Any) -> Settings:
        """The settings that a conch.yaml of this text gives, with overrides."""


class Refusal(Protocol):
    """Reads a conch.yaml that is refused."""

    def __call__(self, text: str | bytes = "", **overrides: Any) -> str:
        """The sentence that refuses it, the file's name left out."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def read(home: Home) -> Read:
    """The settings that a conch.yaml of this text gives, with overrides."""

    def reading(text: str | bytes, **overrides: Any) -> Settings:
        home.config_file.write_bytes(text.encode() if isinstance(text, str) else text)
        return load(None, home, overrides)

    return reading


@pytest.fixture
def refusal(read: Read, home: Home) -> Refusal:
    """The sentence that refuses them, the file's name left out."""

    def refused(text: str | bytes = "", **overrides: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            read(text, **overrides)
        return str(caught.value).replace(f"{home.config_file} ", "")

    return refused

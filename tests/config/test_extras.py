"""The command that a sentence names where an extra is missing."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch.config import environment
from conch.config.environment import to_install

CLONE = {"url": "file:///home/ada/my%20clone", "dir_info": {"editable": True}}


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of this environment, which has no pip beside it yet."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path / "python"


def _installed(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None) -> None:
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(environment, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))


def test_a_clone_is_installed_once_more_with_the_extra(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the pip of its environment; by the system's where it has none; a blank in a path parts no words."""
    _installed(monkeypatch, CLONE)

    assert to_install("otel") == f"pip --python {python} install -e '/home/ada/my clone[otel]'"
    python.with_name("pip").touch()
    assert to_install("otel") == f"{python.with_name('pip')} install -e '/home/ada/my clone[otel]'"


@pytest.mark.parametrize("origin", [None, {"url": "file:///home/ada/clone", "dir_info": {}}])
def test_a_package_is_named_by_its_name(origin: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was built of a clone and not linked to it."""
    _installed(monkeypatch, origin)

    assert to_install("otel") == "pip install 'conch-agent[otel]'"


def test_so_it_is_where_nothing_was_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conch runs from its folder."""

    def nothing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(environment, "distribution", nothing)

    assert to_install("otel") == "pip install 'conch-agent[otel]'"

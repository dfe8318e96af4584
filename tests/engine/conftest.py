"""An engine that serves SmolLM2, where the extra `local` and the model are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from conch.config import Settings
from conch.engine import PACKAGED, RunningEngine, minded, running_engine

SETTINGS = Settings.model_validate({"mind": {"kind": "local", "free_share": 0.0, "timeout": 300}})


@pytest.fixture
def model(lacking: Callable[[str], NoReturn]) -> Path:
    """SmolLM2's file; gives up with the command that installs what is missing."""
    if importlib.util.find_spec("xllamacpp") is None:
        lacking("there is no engine: pip install 'conch-agent[local]'")
    file = PACKAGED["smollm2"].file
    if not file.is_file():
        lacking("there is no model: conch model install smollm2")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a place for logs."""
    (tmp_path / "logs").mkdir()
    return tmp_path


@pytest.fixture
async def engine(model: Path, home: Path) -> AsyncIterator[RunningEngine]:
    """An engine that has loaded the model."""
    async with running_engine(SETTINGS, home, model) as running:
        yield running


@pytest.fixture
def asking(engine: RunningEngine, model: Path) -> Settings:
    """The settings of a mind that asks the engine."""
    return minded(SETTINGS, model, engine.address)

"""A workspace, a sandbox, and an agent's hand on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

from conch.actions import parse
from conch.config import ToolSettings
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, ToolContext
from conch_schemas import Outcome

SETTINGS = ToolSettings(timeout=10, memory_mib=256, processes=24, output_kib=64, file_mib=4)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "workspace"
    made.mkdir(parents=True)
    return made


@pytest.fixture(scope="session")
def bwrap(lacking: Callable[[str], NoReturn]) -> Sandbox:
    """The real sandbox; skipped, with how to get it, where it cannot run."""
    sandbox = Sandbox(SETTINGS)
    problem = sandbox.detect()
    if problem is not None:
        lacking(problem)
    return sandbox


@pytest.fixture
def off() -> Sandbox:
    return Sandbox(SETTINGS.model_copy(update={"sandbox": "off"}))


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    with Notes(tmp_path / "notes.db") as made:
        yield made


@pytest.fixture
def context(workspace: Path, notes: Notes, off: Sandbox) -> ToolContext:
    """For what needs no sandbox."""
    return ToolContext(workspace, off, notes, SETTINGS, message=("m1", "how are you?"))


class Act(Protocol):
    """Acts as the agent does."""

    async def __call__(self, text: str, given: ToolContext = ...) -> Outcome:
        """The outcome of a reply; `given`: another context than the test's."""


@pytest.fixture
def act(context: ToolContext) -> Act:
    """What the agent does with a reply."""
    toolbox = Toolbox(BUILTIN_TOOLS)

    async def act(text: str, given: ToolContext = context) -> Outcome:
        action = parse(text, toolbox.registry)
        assert action.valid, action.reason
        return await toolbox.run(action, given)

    return act

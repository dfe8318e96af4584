"""The sample projects that an empty workspace can be filled with, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conch.errors import UsageError
from conch.text import instead
from conch.workspace.backlog import CHANGES, backlog_goals
from conch.workspace.goals import UNCOMMITTED, default_goals
from conch.workspace.pantry import CELLAR, pantry_goals
from conch_schemas import Goal

_FILES: Final = Path(__file__).parent / "files"


@dataclass(frozen=True)
class WorkspaceSample:
    """A small project to work on: files, a history, goals, and what it is brought later."""

    name: str
    about: str
    """What it holds, in some words."""
    files: Path
    history: tuple[tuple[str, tuple[str, ...]], ...]
    """The commits of its repository, in order: message, and the paths as git's `add` takes them."""
    goals: Callable[[], tuple[Goal, ...]]
    """Makes the goals that its agent begins with."""
    script: str
    """The class of its `MaterialScript`, as module:class."""


TIDEPOOL: Final = WorkspaceSample(
    name="tidepool",
    about="notes about rock pools and a small program",
    files=_FILES / "tidepool",
    history=(
        ("The notes, as they were written beside the water", ("README.md", ".gitignore", "notes")),
        ("What was counted, May to September", ("data", f":!{UNCOMMITTED}")),
        ("A program that counts, and tests that ask for more", ("tidepool", "tests")),
    ),
    goals=default_goals,
    script="conch.workspace.tidepool:TidepoolScript",
)
"""The sample that a home's own workspace begins with, unless another one is named."""

BACKLOG: Final = WorkspaceSample(
    name="backlog",
    about="a small program that weighs parcels, and its backlog",
    files=_FILES / "backlog",
    history=(("What weighs parcels, and what is planned", (".", f":!{CHANGES}")),),
    goals=backlog_goals,
    script="conch.workspace.backlog:BacklogScript",
)
PANTRY: Final = WorkspaceSample(
    name="pantry",
    about="recipes, menus and what is on the shelves, and no program",
    files=_FILES / "pantry",
    history=(("The recipes and the shelves", (".", f":!{CELLAR}")),),
    goals=pantry_goals,
    script="conch.workspace.pantry:PantryScript",
)

SAMPLES: Final[Mapping[str, WorkspaceSample]] = {sample.name: sample for sample in (TIDEPOOL, BACKLOG, PANTRY)}


def named_sample(name: str) -> WorkspaceSample:
    """The sample of this name. Raises UsageError where there is none."""
    if name not in SAMPLES:
        raise UsageError(f"--sample {name}: there is no such sample; {instead(name, SAMPLES)}")
    return SAMPLES[name]

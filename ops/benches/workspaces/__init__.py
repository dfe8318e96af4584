"""The workspaces of the benchmarks: the product's samples, and one that nothing of the embedded mind was tuned in."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conch.config import commented
from conch.home import Home
from conch.workspace import WorkspaceSample, fill, record_filled
from conch.workspace.record import RECORD, FilledWorkspace
from conch_schemas import Goal


class BenchWorkspace(Protocol):
    """A workspace that a home is made with."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals that its agent begins with."""
        ...

    def furnish(self, home: Path) -> None:
        """Make a home whose workspace it is."""
        ...


@dataclass(frozen=True)
class SampleWorkspace:
    """A sample of the product."""

    sample: WorkspaceSample

    @property
    def name(self) -> str:
        """The sample's name."""
        return self.sample.name

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The sample's goals."""
        return self.sample.goals()

    def furnish(self, home: Path) -> None:
        """Make a home whose workspace it is."""
        Home(home).make()
        record_filled(home, home, home / "workspace", self.sample)
        fill(home / "workspace", self.sample)
        (home / "conch.yaml").write_text(commented(goals=self.goals))


@dataclass(frozen=True)
class HeldOutWorkspace:
    """A workspace as it is at first."""

    name: str
    files: dict[str, str]
    uncommitted: tuple[str, ...]
    """Files left out of the repository's only commit."""
    goals: tuple[Goal, ...]
    script: str
    """The class of its script, as module:class."""

    def furnish(self, home: Path) -> None:
        """Make a home whose workspace it is."""
        Home(home).make()
        directory = home / "workspace"
        for path, text in self.files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text)
        left = [f":!{path}" for path in self.uncommitted]
        for command in (
            ("init", "--quiet", "--initial-branch=main"),
            ("config", "user.name", "echo"),
            ("config", "user.email", "echo@conch.invalid"),
            ("add", "--", ".", *left),
            ("commit", "--quiet", "-m", "As it was"),
        ):
            subprocess.run(["git", *command], cwd=directory, check=True)
        record = FilledWorkspace(workspace="workspace", script=self.script)
        (home / RECORD).write_text(record.model_dump_json())
        (home / "conch.yaml").write_text(commented(goals=self.goals))

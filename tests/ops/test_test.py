"""ops/test: what it leaves behind, and what it says of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.ops.containers import OPS

PYTHON = """#!/bin/sh
case "$*" in
*"-m pytest"*) echo "$*" && for one; do case $one in "$TMPDIR"/*) mkdir "$one" ;; esac; done && {pytest} ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose environment is set up, and whose checks find nothing."""
    made = tmp_path / "project"
    (made / "ops").mkdir(parents=True)
    (made / "tests").mkdir()
    for name in ("ops/test", "ops/venv.sh", "ops/requirements.py", "pyproject.toml", "requirements.lock"):
        shutil.copy(OPS.parent / name, made / name)
    (made / ".venv" / "bin").mkdir(parents=True)
    for name in ("ruff", "mypy"):
        _program(made / ".venv" / "bin" / name, "#!/bin/sh\n")
    (tmp_path / "tmp").mkdir()
    return made


def _program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def _started(project: Path, pytest_does: str) -> subprocess.Popen[str]:
    _program(project / ".venv" / "bin" / "python", PYTHON.replace("{pytest}", pytest_does))
    return subprocess.Popen(
        [project / "ops" / "test", "--quick", "tests/bus"],
        env=os.environ | {"TMPDIR": str(project.parent / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _left(project: Path) -> list[Path]:
    return list((project.parent / "tmp").iterdir())


@pytest.mark.parametrize("status", [0, 5])
def test_the_directories_of_a_run_without_failure_are_removed(project: Path, status: int) -> None:
    """Each run has its own below the directory for temporary files, with a short name; its exit status is pytest's."""
    process = _started(project, f"exit {status}")
    asked, _ = process.communicate(timeout=60)

    assert process.returncode == status
    assert _left(project) == []
    words = asked.split()
    base = Path(words[words.index("--basetemp") + 1]).relative_to(project.parent / "tmp")
    assert len(str(base)) <= 14
    assert words[-1] == "tests/bus"
    assert "--quick" in words


def test_the_directories_of_a_failed_run_are_kept_and_named(project: Path) -> None:
    """They show what went wrong."""
    process = _started(project, "exit 1")
    _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    [kept] = _left(project)
    assert f"the directories of the failed tests are kept in {kept}\n" in said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_directories_of_an_interrupted_run_are_removed(project: Path, how: signal.Signals) -> None:
    """By Ctrl-C, or by what ends a job."""
    process = _started(project, "exec sleep 600")
    assert process.stdout is not None
    while "pytest" not in process.stdout.readline():
        pass
    assert len(_left(project)) == 1

    os.killpg(process.pid, how)
    process.communicate(timeout=60)

    assert process.returncode in (128 + how, -how)
    assert _left(project) == []

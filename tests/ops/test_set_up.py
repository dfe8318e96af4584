"""ops/venv.sh and ops/prepare.py: what they say, and what they leave where they cannot go on."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.ops.containers import OPS


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project with an environment whose Python writes down what it is asked to do, and does none of it."""
    (tmp_path / "ops").mkdir()
    for name in ("pyproject.toml", "requirements.lock", "ops/requirements.py"):
        shutil.copy(OPS.parent / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n')
    python.chmod(0o755)
    return tmp_path


def _set_up(clone: Path, stderr: int) -> str:
    """What pip was asked to install."""
    done = subprocess.run(
        ["sh", "-euc", 'root=$1; extras=otel; . "$2"', "sh", clone, OPS / "venv.sh"], stderr=stderr, timeout=60
    )
    assert done.returncode == 0
    [locked, project] = [
        line for line in (clone / "asked").read_text().splitlines() if line.startswith("-m pip install")
    ]
    assert "--require-hashes --no-deps -r" in locked
    assert ("--quiet" in locked) is ("--quiet" in project)
    return project


def test_whoever_looks_sees_what_pip_is_at(clone: Path) -> None:
    """On a terminal; what it will do and how long that takes is said before."""
    ours, terminal = pty.openpty()
    try:
        asked = _set_up(clone, terminal)
        said = os.read(ours, 1000).decode()
    finally:
        os.close(ours)
        os.close(terminal)

    assert "--quiet" not in asked
    assert asked.endswith(f"-e {clone}[otel,fast]")
    assert "half a minute to two minutes" in said


def test_where_nobody_looks_pip_is_quiet(clone: Path) -> None:
    """In a log, as that of a build."""
    with (clone / "log").open("w") as log:
        asked = _set_up(clone, log.fileno())

    assert "--quiet" in asked
    assert (clone / "log").read_text().count("\n") == 1


@pytest.mark.parametrize("words", [(), ("otel", "data")])
def test_what_is_installed_is_held_by_hashes(words: tuple[str, ...]) -> None:
    """The lines of the lock for the plain install and its build, and for the extras that are named; no others."""
    command = [sys.executable, OPS / "requirements.py", *words]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    pins = [line.partition("==")[0] for line in lines if not line.startswith(" ")]
    assert {"pydantic", "hatchling"} <= {*pins}
    assert ("pyarrow" in pins, "opentelemetry-sdk" in pins, "torch" in pins) == (bool(words), bool(words), False)
    assert len([line for line in lines if "--hash=sha256:" in line]) > len(pins)


def test_a_changed_file_is_not_installed(tmp_path: Path) -> None:
    """pip refuses a package whose file is not the one of the lock."""
    wheel = tmp_path / "changed-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("changed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: changed\nVersion: 1.0\n")
        file.writestr("changed-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("changed-1.0.dist-info/RECORD", "")
    (tmp_path / "r").write_text(f"changed==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", tmp_path, "--target", tmp_path / "t"]

    done = subprocess.run(
        [*pip, "--require-hashes", "--no-deps", "-r", tmp_path / "r"], capture_output=True, text=True, timeout=60
    )

    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_what_the_first_run_sets_up_has_every_command_of_the_read_me() -> None:
    """They come with the plain install: the first run asks for no extra."""
    [line] = [line for line in (OPS / "run").read_text().splitlines() if line.startswith("extras=")]

    assert line == "extras="


@pytest.mark.parametrize(
    ("options", "installed", "calls"),
    [
        (("--mind", "local"), "false", ["model list --json", "model install smollm2", "run --mind local"]),
        (("--mind=local", "--cycles", "2"), "true", ["model list --json", "run --mind=local --cycles 2"]),
        (("--mind", "reflex"), "false", ["run --mind reflex"]),
    ],
)
def test_a_run_of_the_local_mind_brings_its_engine_and_model(
    clone: Path, options: tuple[str, ...], installed: str, calls: list[str]
) -> None:
    """What is missing is said before it is installed; a run of another mind installs neither."""
    for name in ("run", "venv.sh"):
        shutil.copy(OPS / name, clone / "ops")
    (clone / ".venv/bin/python").write_text(
        f'#!/bin/sh\necho "$*" >> {clone}/asked\ncase "$*" in *xllamacpp*) exit 1 ;; esac\n'
    )
    conch = clone / ".venv/bin/conch"
    conch.write_text(f'#!/bin/sh\necho "$*" >> {clone}/calls\necho \'"installed": {installed}\'\n')
    conch.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}

    done = subprocess.run(["sh", clone / "ops/run", *options], env=plain, stderr=subprocess.PIPE, text=True, timeout=60)

    assert done.returncode == 0
    assert (clone / "calls").read_text().splitlines() == calls
    is_local = "local" in " ".join(options)
    assert ("xllamacpp, 34 MB" in done.stderr) is is_local
    assert ("[local,fast]" in (clone / "asked").read_text()) is is_local

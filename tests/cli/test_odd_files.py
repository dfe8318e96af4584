"""What a command says of a file that is none: a pipe nobody writes to, a device without an end, a directory, a hole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conch.bus.archive import read_manifest
from conch.config.load import load
from conch.config.named import read_named
from conch.config.yaml_file import read_file
from conch.consumer.plugins.discover import text_of
from conch.consumer.plugins.replay_file import recorded_acts
from conch.errors import ConchError
from conch.home import Home
from conch.minds.scripted import read_script
from conch.values.signing import sign

HOLE = 100 * 2**30


@pytest.fixture(params=["pipe", "device", "directory"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """No plain file, by the name of one of each kind."""
    place = tmp_path / "odd.py"
    if request.param == "pipe":
        os.mkfifo(place)
    elif request.param == "device":
        place.symlink_to("/dev/zero")
    else:
        place.mkdir()
    return place


READERS = {
    "a snapshot": lambda file: read_manifest(file, lambda *_: None),
    "conch.yaml": read_file,
    "a file of the settings": lambda file: read_named("values.file", file, 1024, holds="values", why="it is so"),
    "a plug-in": lambda file: text_of(str(file)),
    "recorded acts": recorded_acts,
    "a script": read_script,
    "a key": lambda file: sign(file.parent / "values.yaml", file),
}


@pytest.mark.timeout(20, method="signal")
@pytest.mark.parametrize("what", READERS)
def test_what_is_no_plain_file_is_not_read(what: str, odd: Path) -> None:
    """Neither waited for nor read without an end: one sentence says what it is."""
    with pytest.raises((ConchError, OSError), match=r"Is a directory|it is a pipe or a device"):
        READERS[what](odd)


@pytest.mark.timeout(20, method="signal")
@pytest.mark.parametrize("what", [what for what in READERS if what != "a key"])
def test_a_hole_of_a_hundred_gigabytes_is_not_read(what: str, tmp_path: Path) -> None:
    """A plain file as it is, but more than any that is meant."""
    hole = tmp_path / "hole.py"
    with hole.open("wb") as stream:
        os.truncate(stream.fileno(), HOLE)

    with pytest.raises((ConchError, OSError), match=r"longer|larger|cannot be read"):
        READERS[what](hole)


def test_an_empty_device_is_an_empty_file(tmp_path: Path) -> None:
    """`--config /dev/null` is a run without a configuration."""
    assert read_file(Path("/dev/null")).values == {}
    assert read_script(Path("/dev/null")) == ()
    assert load(Path("/dev/null"), Home(tmp_path), {}).agent == "echo"


@pytest.mark.parametrize("file", ["/dev/zero", "pipe", "."])
def test_restore_takes_plain_files_alone(tmp_path: Path, file: str) -> None:
    """Exit status 2, nothing made and nothing waited for."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "conch.cli.main", "bus", "restore", file, "--home", str(tmp_path / "home")]

    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False)

    assert done.returncode == 2
    assert f"{file} is a {'directory' if file == '.' else 'pipe or a device'}" in done.stderr
    assert not (tmp_path / "home").exists()


def test_a_snapshot_is_written_over_no_device(tmp_path: Path) -> None:
    """A name that stands for something else than a plain file keeps standing for it."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "conch.cli.main", "bus", "snapshot", "pipe", "--home", str(tmp_path / "home")]

    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False)

    assert done.returncode == 2
    assert "pipe is a pipe or a device" in done.stderr
    assert (tmp_path / "pipe").is_fifo()

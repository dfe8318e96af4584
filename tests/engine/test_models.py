"""Model files: which are refused before an engine is started, each in a sentence with what to do."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from conch.engine import PACKAGED, checked, installed_file, models_dir
from conch.errors import ConfigError

HEAD = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for data."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    return tmp_path / "data"


def test_models_are_kept_for_all_homes_of_a_user(data: Path) -> None:
    """In conch/models of the user's data; a relative XDG_DATA_HOME counts for nothing."""
    assert models_dir() == data / "conch" / "models"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no GGUF file"),
        (b"PK\x03\x04" + bytes(60), "is no GGUF file"),
        (b"GGUF", "of version 0 or cut short"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "of version 1 or cut short"),
    ],
)
def test_what_is_no_model_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    """Empty, another format, cut in its head, a version that is not read."""
    file = tmp_path / "model.gguf"
    file.write_bytes(content)

    with pytest.raises(ConfigError, match=says):
        checked(str(file))


def test_a_file_larger_than_memory_is_refused(tmp_path: Path) -> None:
    """A file of 16 TiB: the sentence says how much it needs and how much is free."""
    file = tmp_path / "model.gguf"
    with file.open("wb") as sparse:
        sparse.write(HEAD)
        try:
            sparse.truncate(16 * 2**40 - 2**20)
        except OSError:
            pytest.skip("this file system has no sparse files of 16 TiB")

    with pytest.raises(ConfigError, match=r"MiB of memory, .* MiB are free"):
        checked(str(file))


def test_a_model_that_is_not_installed_names_the_command() -> None:
    """Without `mind.model` it is SmolLM2; a name that is neither a file nor known says what is known."""
    with pytest.raises(ConfigError, match="not installed: conch model install smollm2"):
        installed_file("default")
    with pytest.raises(ConfigError, match="there is no file llama: name a GGUF file, or one of smollm2"):
        installed_file("llama")


def test_an_installed_model_of_another_size_is_cut(data: Path) -> None:
    """The size of a model from the index is known: a shorter file is refused before it is loaded."""
    file = PACKAGED["smollm2"].file
    file.parent.mkdir(parents=True)
    file.write_bytes(HEAD)

    with pytest.raises(ConfigError, match="cut short, 24 of 98,362,432 bytes: conch model remove smollm2"):
        checked("default")


def test_a_missing_engine_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the sentence has the command that installs it."""
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    with pytest.raises(ConfigError, match=r"pip install 'conch-agent\[local\]'"):
        checked(str(tmp_path / "model.gguf"))

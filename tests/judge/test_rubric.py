"""The rubric's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from conch.config.load import load
from conch.errors import ConfigError
from conch.home import Home
from conch.judge import read_rubric


def test_a_rubric_is_its_files_text(tmp_path: Path) -> None:
    """Without the white space around it, and without the mark that editors on Windows put before it."""
    file = tmp_path / "tone.md"
    file.write_bytes("\ufeff\n Is it calm? 静か? \n".encode())

    assert read_rubric("tone", str(file)) == "Is it calm? 静か?"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read (No such file or directory): name the file of the rubric"),
        (b"", "is empty: write into it what the judge is to look at"),
        (b" \n\t", "is empty"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"PK\x03\x04\x00\x00", "is no text in UTF-8"),
        (b"x" * (64 * 1024 + 1), "is longer than 64 KiB"),
    ],
)
def test_a_file_that_is_no_rubric_is_told_in_a_sentence(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    """With the setting that names it, and the file."""
    file = tmp_path / "tone.md"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError) as raised:
        read_rubric("tone", str(file))

    assert str(raised.value).startswith(f"rewards.judges.tone.rubric: {file} ")
    assert sentence in str(raised.value)


def test_a_directory_is_no_rubric(tmp_path: Path) -> None:
    """Nor is whatever else cannot be read."""
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rubric("tone", str(tmp_path))


def test_a_rubric_lies_beside_the_file_that_names_it(tmp_path: Path) -> None:
    """Relative to conch.yaml, wherever that is and wherever the command runs; an absolute path stays."""
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "mine.yaml"
    file.write_text("rewards: {judges: {tone: {rubric: rubrics/tone.md}, depth: {rubric: /r/depth.md}}}")

    judges = load(file, Home(tmp_path), {}).rewards.judges

    assert judges["tone"].rubric == str(tmp_path / "elsewhere" / "rubrics" / "tone.md")
    assert judges["depth"].rubric == "/r/depth.md"

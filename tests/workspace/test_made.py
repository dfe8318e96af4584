"""Which directories are Conch's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from conch.home import Home
from conch.workspace import is_made, record_made


def test_a_directory_that_was_recorded_is_conchs_until_another_stands_in_its_place(tmp_path: Path) -> None:
    """Neither a copy of it, nor one that was put in its place, nor what lies in it."""
    home, made = Home(tmp_path / "home"), tmp_path / "made"
    home.make()
    (made / "inner").mkdir(parents=True)
    before = is_made(home, made)
    record_made(home, made)
    record_made(home, made)

    copy = shutil.copytree(made, tmp_path / "copy")

    assert (before, is_made(home, made)) == (False, True)
    assert not is_made(home, copy)
    assert not is_made(home, made / "inner")
    made.rename(tmp_path / "old")
    copy.rename(made)
    assert not is_made(home, made)


def test_the_homes_own_workspace_is_always_conchs(tmp_path: Path) -> None:
    """Also in a home that was copied or restored."""
    home = Home(tmp_path / "home")

    assert is_made(home, home.workspace)
    assert is_made(home, home.workspace / "echo-1")
    assert not is_made(home, tmp_path)
    assert not is_made(home, tmp_path / "missing")

"""A home and a store name the version of Conch that wrote them, and a refusal names it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from conch.config import Settings
from conch.errors import HomeError, StoreError
from conch.experience import SqliteReader, SqliteStore
from conch.experience.schema import SCHEMA_VERSION
from conch.home import Home
from conch.views.run import checks

OWN = version("conch-agent")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that was made."""
    made = Home(tmp_path / "home")
    made.make()
    return made


def test_a_home_names_the_version_that_last_ran_in_it(home: Home) -> None:
    """From when it is made; the next version writes its own name over it."""
    assert home.version_file.read_text() == f"{OWN}\n"
    home.version_file.write_text("0.1.9\n")
    home.make()
    assert home.read_writer() == "0.1.9"

    home.name_version()

    assert home.read_writer() == OWN


def _as_pipe(file: Path) -> None:
    os.mkfifo(file)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "absent": lambda file: None,
    "empty": lambda file: file.write_bytes(b""),
    "no text": lambda file: file.write_bytes(b"\xff\x00\xfe"),
    "no version": lambda file: file.write_text("\x1b[2J[/nope]"),
    "long": lambda file: file.write_text("0" * 100_000),
    "a directory": lambda file: (file / "part").mkdir(parents=True),
    "a pipe": _as_pipe,
    "a link to nothing": lambda file: file.symlink_to("nowhere"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_version_breaks_nothing(home: Home, damage: str) -> None:
    """It is not known then, and the next run mends it where it can."""
    home.version_file.unlink()
    DAMAGES[damage](home.version_file)

    home.refuse_newer()
    assert home.read_writer() == ""
    with home.owned():
        home.name_version()

    assert home.read_writer() == ("" if damage == "a directory" else OWN)


def test_a_newer_home_names_its_version(home: Home) -> None:
    """What to install, and what this one is."""
    (home.path / "format").write_text("2\n")
    home.version_file.write_text("0.3.0\n")

    with pytest.raises(HomeError) as refused:
        home.refuse_newer()

    assert str(refused.value) == (
        f"{home.path} was written by conch 0.3.0 (format '2', this one knows 1): this is conch {OWN}, install that "
        "version, or choose another --home"
    )


@pytest.mark.parametrize("named", ["", "\x1b[2J", f"{OWN}\n"])
def test_a_newer_home_that_names_no_other_version_is_refused_too(home: Home, named: str) -> None:
    """No version is known that could have written it."""
    (home.path / "format").write_text("2\n")
    home.version_file.write_text(named)

    with pytest.raises(HomeError, match=r"by a newer version \(format '2', this one knows 1\): upgrade conch-agent"):
        home.refuse_newer()


def test_the_doctor_names_the_version_that_last_ran(home: Home) -> None:
    """It does not write its own there."""
    home.version_file.write_text("0.1.9\n")

    [finding] = [finding for finding in checks.home(home, Settings()) if finding.name == "home"]

    assert finding.says.endswith("no run has it, last run by conch 0.1.9")
    assert home.read_writer() == "0.1.9"


@pytest.mark.parametrize("kind", [SqliteStore, SqliteReader])
@pytest.mark.parametrize("named", ["'0.3.0'", "'\x1b[2J'", "7", "x'ff'", f"'{OWN}'", None])
def test_a_newer_store_names_the_version_that_wrote_it(
    tmp_path: Path, kind: type[SqliteStore | SqliteReader], named: str | None
) -> None:
    """Where it names no version, or this one, it was a newer one."""
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute("SELECT value FROM meta WHERE name = 'conch'").fetchone() == (OWN,)
        db.execute("DELETE FROM meta" if named is None else f"UPDATE meta SET value = {named}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")

    with pytest.raises(StoreError) as refused:
        kind(path)

    is_known = named == "'0.3.0'"
    writer = "conch 0.3.0" if is_known else "a newer Conch"
    advice = f"this is conch {OWN}, install that version" if is_known else "upgrade conch-agent"
    assert str(refused.value) == (
        f"The experience store {path} was written by {writer} (schema {SCHEMA_VERSION + 1}, this one knows "
        f"{SCHEMA_VERSION}): {advice}."
    )


def test_a_store_that_an_older_version_wrote_last_is_renamed_by_its_next_writer(tmp_path: Path) -> None:
    """A reader changes nothing."""
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE meta SET value = '0.1.9' WHERE name = 'conch'")
        SqliteReader(path).close()
        assert db.execute("SELECT value FROM meta WHERE name = 'conch'").fetchone() == ("0.1.9",)

        SqliteStore(path).close()

        assert db.execute("SELECT value FROM meta WHERE name = 'conch'").fetchone() == (OWN,)

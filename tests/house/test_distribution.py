"""The order of the test files, and which of them are the quick part."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests import distribution
from tests.distribution import Durations, is_quick, pytest_collection_modifyitems, pytest_ignore_collect


class _Config:
    """As much of a pytest configuration as order and choice depend on."""

    rootpath = Path("/project")

    def __init__(self, *, quick: bool) -> None:
        self._quick = quick
        self.workerinput: dict[str, str] = {}

    def getoption(self, _: str) -> bool:
        return self._quick


def _items(*nodes: str) -> list[pytest.Item]:
    return cast(list[pytest.Item], [SimpleNamespace(nodeid=node) for node in nodes])


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the durations, with some."""
    file = tmp_path / "durations.json"
    file.write_text(json.dumps({"tests/bus/test_a.py": 1.5, "tests/bus/test_b.py": 90.0, "tests/gone/test_c.py": 7.0}))
    monkeypatch.setattr(distribution, "FILE", file)
    return file


def test_the_quick_part_has_short_and_new_files() -> None:
    """Not those of the folders that start runs and kill servers, however short they are."""
    assert is_quick("tests/bus/test_new.py", 0.0)
    assert is_quick("tests/bus/test_short.py", 1.5)
    assert not is_quick("tests/bus/test_long.py", 30.0)
    assert not is_quick("tests/run/test_new.py", 0.0)


@pytest.mark.usefixtures("measured")
def test_with_several_processes_the_longest_file_is_first() -> None:
    """Tests of one file stay in their order."""
    items = _items(
        "tests/x/test_n.py::one", "tests/bus/test_a.py::one", "tests/bus/test_b.py::one", "tests/bus/test_b.py::two"
    )

    pytest_collection_modifyitems(cast(pytest.Config, _Config(quick=False)), items)

    assert [one.nodeid for one in items] == [
        *("tests/bus/test_b.py::one", "tests/bus/test_b.py::two", "tests/bus/test_a.py::one", "tests/x/test_n.py::one")
    ]


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize(
    ("quick", "path", "ignored"),
    [
        (True, "tests/bus/test_b.py", True),
        (True, "tests/bus/test_a.py", None),
        (True, "tests/bus/conftest.py", None),
        (True, "tests/run", None),
        (False, "tests/bus/test_b.py", None),
    ],
)
def test_what_the_quick_part_leaves_out_is_not_imported(quick: bool, path: str, ignored: bool | None) -> None:
    """Long files of tests alone, and only where the quick part is asked for."""
    config = cast(pytest.Config, _Config(quick=quick))

    assert pytest_ignore_collect(config.rootpath / path, config) is ignored


def test_written_durations_are_of_files_that_exist_and_take_a_second(measured: Path) -> None:
    """A file that was not run keeps what it had; all phases of a test count."""
    known = "tests/house/test_distribution.py"
    measured.write_text(json.dumps({known: 4.0, "tests/gone/test_c.py": 7.0}))
    durations = Durations()
    for node, seconds in (
        ("tests/bus/test_a.py::one", 0.7),
        ("tests/bus/test_a.py::one", 0.6),
        ("tests/x.py::one", 0.9),
    ):
        durations.pytest_runtest_logreport(cast(pytest.TestReport, SimpleNamespace(nodeid=node, duration=seconds)))

    durations.pytest_sessionfinish()

    assert json.loads(measured.read_text()) == {"tests/bus/test_a.py": 1.3, known: 4.0}

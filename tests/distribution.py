"""Which test files run first, and which of them belong to the quick part: by what each took when it was last measured.

`tests/durations.json` holds the seconds of every file that takes one or more. A file that is not there counts as fast.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILE = TESTS / "durations.json"
LEAST_SECONDS = 1.0
"""Shorter files are not written down."""
QUICK_SECONDS = 2.0
"""Longest file of the quick part."""
NEVER_QUICK = ("cluster", "docs", "faults", "run", "trl")
"""Folders whose files are no part of it, also when they are new."""


def measured() -> dict[str, float]:
    """Seconds by file, its path relative to the project; empty where nothing was measured."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def file_of(node: str) -> str:
    """The file of a test's id."""
    return node.partition("::")[0]


def is_quick(file: str, seconds: float) -> bool:
    """Whether a file belongs to the quick part."""
    return seconds <= QUICK_SECONDS and file.split("/")[1] not in NEVER_QUICK


class Durations:
    """Adds up the seconds of each file and writes them down at the end of the session.

    A file that was not run keeps its entry; the entry of one that does not exist any more is dropped.
    """

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test."""
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        known = {file: seconds for file, seconds in measured().items() if (TESTS.parent / file).exists()}
        known |= self._seconds
        kept = {file: round(seconds, 1) for file, seconds in sorted(known.items()) if seconds >= LEAST_SECONDS}
        FILE.write_text(json.dumps(kept, indent=0) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the tests."""
    group = parser.getgroup("conch")
    group.addoption("--quick", action="store_true", help="leave out the test files that take long")
    group.addoption("--write-durations", action="store_true", help="write what each test file took to durations.json")


def pytest_configure(config: pytest.Config) -> None:
    """The process that hears every report writes the durations."""
    if config.getoption("--write-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is no part of the quick part is not even imported."""
    if not config.getoption("--quick") or not collection_path.match("test_*.py"):
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    return None if is_quick(file, measured().get(file, 0.0)) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes the longest file is first, so that none runs alone at the end."""
    if hasattr(config, "workerinput"):
        seconds = measured()
        items.sort(key=lambda item: -seconds.get(file_of(item.nodeid), 0.0))

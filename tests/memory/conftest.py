"""Memories made by hand, and a file for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conch.memory import LongTermMemory
from tests.memories import MakeMemory, made


@pytest.fixture(scope="session")
def memory() -> MakeMemory:
    """`memory("a text", "note", 3)`: of the act 3."""
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def store(file: Path) -> Iterator[LongTermMemory]:
    store = LongTermMemory(file)
    yield store
    store.close()


@pytest.fixture
def texts() -> Callable[[LongTermMemory], list[str]]:
    """The texts of all memories, sorted."""
    return lambda store: sorted(one.text for one in store.newest(100_000))

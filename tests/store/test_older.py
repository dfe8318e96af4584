"""A store of an older schema is refused; one of the present schema opens."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.errors import StoreError
from conch.experience import SqliteReader, SqliteStore
from conch.experience.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


@pytest.fixture
def store_of(tmp_path: Path, facts: Facts, shared_events: Apply) -> Callable[[int], Path]:
    """Make a store with a cycle in it, whose file says that it is of this schema."""

    def make(schema: int) -> Path:
        path = tmp_path / "experience.db"
        with SqliteStore(path) as store:
            shared_events(store, facts.weights(), *facts.cycle(1))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(f"PRAGMA user_version = {schema}")
        return path

    return make


@pytest.mark.parametrize("kind", [SqliteStore, SqliteReader])
@pytest.mark.parametrize("schema", range(1, SCHEMA_VERSION))
def test_a_store_of_an_older_schema_is_refused_as_it_is(
    kind: Any, schema: int, store_of: Callable[[int], Path]
) -> None:
    """To write or to read: one sentence names the version that migrates it, and not a byte of the file is changed."""
    path = store_of(schema)
    before = path.read_bytes()

    with pytest.raises(StoreError) as refused:
        kind(path)

    assert str(refused.value) == (
        f"The experience store {path} was written by an older Conch (schema {schema}, "
        f"this one knows {SCHEMA_VERSION}): "
        "open it once with Conch 0.1.0 at revision d6c4a2b, which migrates it."
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", [SqliteStore, SqliteReader])
def test_a_store_of_the_present_schema_opens(kind: Any, store_of: Callable[[int], Path]) -> None:
    """The schema of homes that are in use: 4."""
    with kind(store_of(4)) as store:
        assert [one.cycle for one in store.cycles.last("echo", 9)] == [1]

"""A store of an older schema is refused; one of the present schema opens."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.errors import StoreError
from conch.experience import SqliteReader, SqliteStore, packing
from conch.experience.sample import ExperienceSampler
from conch.experience.schema import OPENED_SINCE, SCHEMA_VERSION
from tests.stores import age

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts

COLUMNS = (
    *(("acts", "body"), ("contexts", "body"), ("needs", "body")),
    *(("marks", "body"), ("experiences", "verdict")),
)
"""What is packed."""


@pytest.fixture
def store_of(tmp_path: Path, facts: Facts, shared_events: Apply) -> Callable[[int], Path]:
    """Make a store with a cycle in it, whose file says that it is of this schema."""

    def make(schema: int) -> Path:
        path = tmp_path / "experience.db"
        with SqliteStore(path) as store:
            shared_events(store, facts.weights(), *facts.cycle(1))
        age(path, schema)
        return path

    return make


@pytest.mark.parametrize("kind", [SqliteStore, SqliteReader])
@pytest.mark.parametrize("schema", range(1, OPENED_SINCE))
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
        f"this one knows {SCHEMA_VERSION}): run it once with Conch 0.1.0 at revision d6c4a2b "
        "(git checkout d6c4a2b in a clone of its repository), which migrates it."
    )
    assert path.read_bytes() == before


def version_of(path: Path) -> int:
    """The schema that the file says it has."""
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_a_store_of_plain_rows_is_read_and_goes_on(
    store_of: Callable[[int], Path], facts: Facts, shared_events: Apply
) -> None:
    """Schema 4: a reader changes nothing, a writer adds packed rows beside the plain ones."""
    path = store_of(4)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        packing.register(db)
        for table, column in COLUMNS:
            db.execute(f"UPDATE {table} SET {column} = unpacked({column})")
        plain = db.execute("SELECT body FROM acts").fetchall()

    with SqliteReader(path) as reader:
        assert [one.cycle for one in reader.cycles.last("echo", 9)] == [1]
    assert version_of(path) == 4
    with SqliteStore(path) as store:
        shared_events(store, *facts.cycle(2))
        assert [one.cycle for one in store.cycles.last("echo", 9)] == [1, 2]

    assert version_of(path) == SCHEMA_VERSION
    with closing(sqlite3.connect(path)) as db:
        assert [bytes(body[:1]) == b"{" for (body,) in db.execute("SELECT body FROM acts ORDER BY cycle")] == [
            True,
            False,
        ]
        assert db.execute("SELECT body FROM acts ORDER BY cycle LIMIT 1").fetchall() == plain


@pytest.mark.parametrize("schema", range(OPENED_SINCE, SCHEMA_VERSION))
def test_an_older_file_gets_its_new_columns_when_it_is_written_and_no_row_changes(
    schema: int, store_of: Callable[[int], Path]
) -> None:
    """The tables are those of a new file then; a second opening adds nothing."""
    path = store_of(schema)
    with SqliteReader(path) as reader:
        before = reader.cycles.last(None, 9)
    for _ in range(2):
        with SqliteStore(path) as store:
            assert store.cycles.last(None, 9) == before

    new = path.with_name("new.db")
    SqliteStore(new).close()
    columns = "SELECT name, type FROM pragma_table_info('experiences') ORDER BY name"
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(new)) as made:
        assert old.execute(columns).fetchall() == made.execute(columns).fetchall()
        assert old.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


@pytest.mark.parametrize("schema", range(OPENED_SINCE, SCHEMA_VERSION))
def test_an_older_file_is_sampled_before_it_is_written_again(schema: int, store_of: Callable[[int], Path]) -> None:
    """A reader adds no column; nothing can have changed that it would have to be told of."""
    with SqliteReader(store_of(schema)) as reader:
        sampler = ExperienceSampler(reader.sampling)

        assert [sampler.prioritised(1).cycles.tolist() for _ in range(2)] == [[1], [1]]


@pytest.mark.parametrize("kind", [SqliteStore, SqliteReader])
def test_a_store_of_a_newer_schema_is_refused(kind: Any, store_of: Callable[[int], Path]) -> None:
    """One sentence, as its rows may mean what this version does not know."""
    with pytest.raises(StoreError, match="was written by a newer Conch"):
        kind(store_of(SCHEMA_VERSION + 1))


@pytest.mark.parametrize("schema", range(OPENED_SINCE, SCHEMA_VERSION))
def test_a_store_from_before_reviews_gets_their_table(schema: int, store_of: Callable[[int], Path]) -> None:
    """A writer adds it, once; the cycles that were there stay."""
    path = store_of(schema)

    for _ in range(2):
        with SqliteStore(path) as store:
            assert [one.cycle for one in store.cycles.last("echo", 9)] == [1]

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM reviews").fetchone() == (0,)
    assert version_of(path) == SCHEMA_VERSION

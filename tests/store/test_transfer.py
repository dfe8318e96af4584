"""Experiences of one back end in the other: the same documents, in batches, counted, and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.errors import StoreError
from conch.experience import ExperienceReader, ScoredSince, StoreLocation, TransferCount, copy_store
from conch.experience.opened import OpenStore
from conch.experience.packing import new_packing
from conch_schemas import encode
from tests.postgres import PostgresServer

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts

CYCLES = 7


def documents(store: ExperienceReader) -> dict[str, Any]:
    """All that a store says of its agents."""
    found: dict[str, Any] = {"agents": store.agents(), "position": store.position(), "epoch": store.epoch()}
    for agent in store.agents():
        found[agent] = [
            *(json.loads(encode(one)) for one in store.cycles.walk(agent, ScoredSince())),
            *(point._asdict() for point in store.charts.points(agent, 99)),
            *(mark.model_dump_json() for mark in store.chain.marks(agent)),
            *(encode(one) for one in store.charts.needs_history(agent, 99)),
            *(encode(one) for one in store.charts.weight_sets(agent)),
            *(store.cycles.prompt(action) for action, _ in store.chain.acts(agent)),
            *(store.charts.component_stats(agent), store.charts.figures(agent), store.charts.tallies(agent, 99)),
            *(store.backfill.scorers(agent), store.retention.removals(agent), store.chain.score_sets(agent)),
        ]
    return found


def fill(place: StoreLocation, facts: Facts, apply: Apply) -> None:
    """A life with an act that waits, scores that came late, words that need care, and an experience unpublished."""
    with place.writer() as store:
        store.set_epoch("one")
        odd = facts.score("joy\0", 0.25, "joy\U0010fffd0", explanation="a NUL \0 and \U0010fffd")
        apply(store, facts.weights(), *(one for cycle in range(1, CYCLES) for one in facts.cycle(cycle)))
        apply(store, facts.reward(3, odd, scorer="joy"), facts.weights(agent="other"), *facts.cycle(20, "other"))
        apply(store, facts.act(CYCLES), now=facts.at(CYCLES))
        store.mark_published([one.id for one in store.unpublished()[:2]])


def move(source: StoreLocation, target: StoreLocation, most: int = 999) -> list[TransferCount]:
    """Transfer; it breaks off after so many batches."""
    one, other = source.opened(writes=False), target.opened(writes=True)
    batches = iter(range(most))
    try:
        return copy_store(one, other, lambda _: next(batches))  # type: ignore[arg-type,return-value]
    finally:
        one.close()
        other.close()


@pytest.fixture
def file(tmp_path: Path, facts: Facts, shared_events: Apply) -> StoreLocation:
    place = StoreLocation(tmp_path / "store.db")
    fill(place, facts, shared_events)
    return place


@pytest.fixture
def database(postgres: PostgresServer) -> StoreLocation:
    return StoreLocation(None, postgres.new_database())


def test_both_back_ends_say_the_same_of_one_run(
    file: StoreLocation, database: StoreLocation, facts: Facts, shared_events: Apply
) -> None:
    """Every document that is read of them, and what is still to be published."""
    fill(database, facts, shared_events)

    with file.writer() as one, database.writer() as other:
        assert documents(other) == documents(one)
        assert other.unpublished() == one.unpublished()
        assert other.expire(facts.now) == one.expire(facts.now)


def test_a_store_is_moved_there_and_back(file: StoreLocation, database: StoreLocation, tmp_path: Path) -> None:
    """Into a database and into a new file: all documents stay what they were, and each body its bytes."""
    back = StoreLocation(tmp_path / "back.db")

    there = move(file, database)
    move(database, back)

    assert {count.table: count.rows for count in there}["acts"] == CYCLES + 1
    with file.writer() as first, database.writer() as second, back.writer() as third:
        assert documents(first) == documents(second) == documents(third)
        assert first.unpublished() == second.unpublished() == third.unpublished()
        bodies = "SELECT act, body FROM acts ORDER BY act"
        assert first._file.rows(bodies) == second._file.rows(bodies) == third._file.rows(bodies)


@pytest.mark.parametrize("batches", [0, 1, 4, 9, 14])
def test_what_breaks_off_is_taken_up_where_it_ended(
    file: StoreLocation, database: StoreLocation, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """In batches of three rows; until it is complete, no run writes to the half that is there."""
    monkeypatch.setattr("conch.experience.transfer.BATCH", 3)
    with pytest.raises((StopIteration, RuntimeError)):
        move(file, database, most=batches)
    with pytest.raises(StoreError, match="holds half an import"):
        database.writer()

    move(file, database)

    with file.reader() as one, database.writer() as other:
        assert documents(other) == documents(one)


def test_half_an_import_is_no_store(
    file: StoreLocation, database: StoreLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read, as a run with missing acts and marks, and not copied on; both back ends say how it is mended."""
    monkeypatch.setattr("conch.experience.transfer.BATCH", 3)
    half = StoreLocation(tmp_path / "half.db")
    for target in (database, half):
        with pytest.raises((StopIteration, RuntimeError)):
            move(file, target, most=4)

        for use in (target.reader, lambda target=target: move(target, StoreLocation(tmp_path / "copy.db"))):
            with pytest.raises(StoreError, match=r"holds half an import: finish it with conch data import\.$"):
                use()


def test_a_source_that_went_on_is_not_taken_up(
    file: StoreLocation, database: StoreLocation, facts: Facts, shared_events: Apply
) -> None:
    """The half that is there would be of another time."""
    with pytest.raises((StopIteration, RuntimeError)):
        move(file, database, most=3)
    with file.writer() as store:
        shared_events(store, facts.reward(CYCLES))

    with pytest.raises(StoreError, match="another one by now: import into an empty store"):
        move(file, database)


def test_a_store_with_rows_of_its_own_is_left_alone(file: StoreLocation, database: StoreLocation) -> None:
    """Also one that an import has filled: twice is refused."""
    move(file, database)

    with pytest.raises(StoreError, match="is not empty"):
        move(file, database)


def test_rows_that_are_not_all_there_are_no_import(
    file: StoreLocation, database: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of both are counted at the end."""
    row = OpenStore.row

    def one_less(store: OpenStore, sql: str, *values: object) -> Any:
        found = row(store, sql, *values)
        is_count = "count(*) FROM marks" in sql and "postgresql" in store.db.name
        return (found[0] - 1,) if is_count else found

    monkeypatch.setattr(OpenStore, "row", one_less)

    with pytest.raises(StoreError, match="rows of marks"):
        move(file, database)


def test_a_body_from_before_packing_is_text_again(file: StoreLocation, database: StoreLocation) -> None:
    """SQLite tells text from bytes in a column, PostgreSQL does not."""
    with file.writer() as store, store._file.writing():
        store._file.db.execute("UPDATE contexts SET body = 'a thought of old' WHERE kind = 'thought' AND act = 1")

    move(file, database)

    with database.reader() as store:
        [experience] = [one for one in store.cycles.last("echo", 99) if one.cycle == 1]
        assert experience.thought == "a thought of old"
        [(body,)] = store._file.rows("SELECT body FROM contexts WHERE act = 1 AND kind = 'thought'")
        assert new_packing().unpacked(body) == "a thought of old"

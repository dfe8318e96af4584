"""The store in PostgreSQL: partitions, odd values, and a sentence for whatever is wrong with the server."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import ConfigError, NoStoreError, StoreAwayError, StoreError
from conch.experience import PostgresReader, PostgresStore, RetentionLimits, store_location
from conch.experience.postgres.connection import sentence
from conch.experience.postgres.dialect import from_text, to_column, translated
from conch.experience.postgres.opening import shown
from conch.experience.queries import prune
from conch_schemas import Event
from tests.postgres import QUOTED, PostgresServer, postgres_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.store.conftest import Apply, Facts


@pytest.fixture
def server(lacking: Callable[[str], NoReturn]) -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    with postgres_server(lacking) as made:
        yield made


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.new_database()


@given(st.text(st.characters(blacklist_categories=["Cs"]) | st.sampled_from("\0\U0010fffd01")))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    """Also NUL, which PostgreSQL cannot hold, and the character that stands for it."""
    stored = to_column("text")(text)

    assert "\0" not in stored
    assert from_text(stored) == text


def test_a_statement_is_numbered_by_its_values() -> None:
    """A name that comes twice is one value; what stands in quotes is none; bodies are packed and unpacked outside."""
    found = translated("SELECT unpacked(a.body), '?:x' FROM acts a WHERE +a.agent = :agent AND :agent <> :other")

    assert found.sql == "SELECT a.body, '?:x' FROM acts a WHERE a.agent = $1 AND $1 <> $2"
    assert (found.names, found.unpacks) == (("agent", "other"), True)
    assert translated("SELECT packed(?), ?").packed == {0}


def test_what_is_removed_leaves_no_partition(
    url: str, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acts are divided by the time of their arrival; a span of which nothing is kept is dropped, the rest is found."""
    monkeypatch.setattr("conch.experience.postgres.connection.PARTITION_ACTS", 4)
    monkeypatch.setattr(prune, "KEPT_CYCLES", 3)
    store = PostgresStore(url)
    shared_events(store, facts.weights(), *(one for cycle in range(1, 11) for one in facts.judged(cycle)))
    spans = "SELECT first, upto, removed FROM partitions ORDER BY first"
    before = store._file.db.bytes_used()

    while store.prune(RetentionLimits(seconds=1.0), facts.now).acts:
        pass
    kept = store._file.rows(spans)
    after = store._file.db.bytes_used()
    shared_events(store, *(one for cycle in range(11, 14) for one in facts.judged(cycle)))

    assert kept == [(1, 5, 4), (5, 9, 3), (9, 13, 0)]
    assert after < before / 2
    assert store._file.rows(spans) == [(5, 9, 3), (9, 13, 0), (13, 17, 0)]
    assert [one.cycle for one in store.cycles.last("echo", 99)] == [8, 9, 10, 11, 12, 13]
    assert store.charts.figures("echo", 99).count == 13
    store.close()


def test_a_reader_does_not_hold_up_a_new_partition(
    url: str, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long read goes on with what it saw, while acts of a new span are stored."""
    monkeypatch.setattr("conch.experience.postgres.connection.PARTITION_ACTS", 2)
    store = PostgresStore(url, timeout=1.0)
    shared_events(store, facts.weights(), *facts.judged(1))

    with PostgresReader(url) as reader, reader._file.snapshot():
        assert reader.cycles._file.row("SELECT count(*) FROM acts") == (1,)
        shared_events(store, *(one for cycle in range(2, 8) for one in facts.judged(cycle)))
        assert reader.cycles._file.row("SELECT count(*) FROM acts") == (1,)

    assert store.cycles.last_cycle("echo") == 7
    store.close()


def test_one_process_writes_at_a_time(url: str) -> None:
    """The second is told so; once the first has let go, it is the writer."""
    first = PostgresStore(url)

    with pytest.raises(StoreError, match="is being written by another process: stop that one"):
        PostgresStore(url, timeout=0.2)
    first.close()
    PostgresStore(url, timeout=0.2).close()


def test_a_reader_writes_nothing(url: str) -> None:
    """The server refuses it."""
    PostgresStore(url).close()

    with PostgresReader(url) as reader, pytest.raises(StoreError, match="takes no writes"), reader._file.writing():
        reader._file.set_meta("position", 7)


def test_a_database_without_a_store_is_none_yet(url: str) -> None:
    """As a file that is not there."""
    with pytest.raises(NoStoreError, match="start a run first"):
        PostgresReader(url)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE conch.meta SET value = '999' WHERE name = 'schema'", "written by a newer Conch"),
        (
            "UPDATE conch.meta SET value = CASE name WHEN 'schema' THEN '999' ELSE '0.3.0' END "
            "WHERE name IN ('schema', 'conch')",
            r"written by conch 0\.3\.0 \(schema 999, this one knows \d+\): this is conch .*, install that version",
        ),
        (
            "UPDATE conch.meta SET value = '6' WHERE name = 'schema'",
            r"written by an older Conch .*: copy it into a file with Conch 0.1.0 at revision 5e7efa5 \(git checkout",
        ),
        ("DELETE FROM conch.meta WHERE name = 'application'", "a schema 'conch' that is no experience store"),
        ("DROP TABLE conch.meta", "a schema 'conch' that is no experience store"),
    ],
)
def test_another_layout_is_left_as_it_is(postgres: PostgresServer, url: str, sql: str, words: str) -> None:
    """Newer, older, or another program's; for the reader and the writer alike."""
    PostgresStore(url).close()
    postgres.sql(sql, url)
    tables = postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'conch'", url)

    for opened in (PostgresReader, PostgresStore):
        with pytest.raises(StoreError, match=words):
            opened(url)
    assert postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'conch'", url) == tables


def test_a_table_that_is_gone_is_damage(postgres: PostgresServer, url: str, facts: Facts, shared_events: Apply) -> None:
    """With what to do; nothing of the batch is stored, and the store can be used on."""
    store = PostgresStore(url)
    postgres.sql("ALTER TABLE conch.scores RENAME TO away", url)

    with pytest.raises(StoreError, match=r"is damaged .*: name another database"):
        shared_events(store, facts.weights(), *facts.judged(1))
    postgres.sql("ALTER TABLE conch.away RENAME TO scores", url)

    assert store.position() == 0
    [experience] = shared_events(store, facts.weights(), *facts.judged(1))
    assert experience.cycle == 1
    store.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (asyncpg.DiskFullError("could not extend file"), "The disk of the server is full"),
        (asyncpg.InsufficientPrivilegeError("permission denied for database"), "grant it CREATE"),
        (asyncpg.CannotConnectNowError("the database system is starting up"), "does not answer"),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "does not answer"),
        (TimeoutError(), "does not answer (TimeoutError)"),
    ],
)
def test_each_fault_has_its_sentence(error: Exception, words: str) -> None:
    """One that says what to do."""
    found = sentence(error, "postgresql://me@db/life")

    assert words in found
    assert "postgresql://me@db/life" in found
    assert "\n" not in found


def test_an_address_is_shown_without_its_password() -> None:
    """Nor its options, which may hold one."""
    assert shown("postgresql://me:se%40cret@db:5433/life?password=secret") == "postgresql://me@db:5433/life"
    assert shown("postgresql:///life?host=/run/secret") == "postgresql:///life"


@pytest.mark.parametrize(
    "bad", ["postgresql://me:secret@db", "postgresql://me:secret@db:x/life", "postgresql://[me:secret"]
)
def test_an_address_that_is_none_is_not_repeated(bad: str, tmp_path: Path) -> None:
    """It may hold a password."""
    with pytest.raises(ConfigError, match="no address of a database") as caught:
        store_location(bad, tmp_path)

    assert "secret" not in str(caught.value)


def test_a_server_that_goes_in_mid_transaction_has_none_of_it(
    server: PostgresServer, facts: Facts, shared_events: Apply
) -> None:
    """The error says that it is away; opened again, the store is as before, and the same facts are joined once."""
    url = server.new_database()
    store = PostgresStore(url)
    shared_events(store, facts.weights(), *facts.judged(1))

    with pytest.raises(StoreAwayError), store._file.writing():  # noqa: PT012 - the server goes between two statements
        store._file.set_meta("position", 99)
        server.stop(signal.SIGKILL)
        store._file.set_meta("position", 100)
    with pytest.raises(StoreAwayError, match="nothing stored is lost") as caught:
        store.position()
    store.close()
    with pytest.raises(StoreAwayError, match="does not answer"):
        PostgresReader(url)
    server.start()

    assert QUOTED not in str(caught.value)
    with PostgresStore(url) as again:
        assert again.position() == 5
        shared_events(again, *facts.judged(2))
        assert [one.cycle for one in again.cycles.last("echo", 9)] == [1, 2]


def test_a_reader_in_another_thread_is_served(url: str, facts: Facts, shared_events: Apply) -> None:
    """All sessions of a process share a loop, whichever thread asks."""
    store = PostgresStore(url)
    shared_events(store, facts.weights(), *facts.judged(1))
    found: list[int | None] = []

    def read() -> None:
        with PostgresReader(url) as reader:
            found.extend(reader.cycles.last_cycle("echo") for _ in range(20))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert found == [1] * 60
    store.close()


def _write_until_killed(url: str, facts: Facts, out: int, seed: int) -> None:
    draw = random.Random(seed)
    with PostgresStore(url) as store:
        _publish(store, out)
        while True:
            first, last = store.position() + 1, store.position() + draw.randint(1, 30)
            store.apply([(seq, _fact(facts, seq)) for seq in range(first, last + 1)], upto=last, now=facts.now)
            os.write(out, f"at {last}\n".encode())
            _publish(store, out)


def _publish(store: PostgresStore, out: int) -> None:
    for experience in store.unpublished():
        os.write(out, f"published {experience.cycle} {experience.revision}\n".encode())
        store.mark_published([experience.id])


def _fact(facts: Facts, seq: int) -> Event:
    """The event at this place of the stream: the weight set, then nine facts a cycle."""
    if seq == 1:
        return facts.weights()
    cycle, place = divmod(seq - 2, 9)
    return facts.cycle(cycle + 1)[place]


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_writers_and_servers_lose_and_double_nothing(server: PostgresServer, facts: Facts) -> None:
    """Kill -9 of the one or the other at random: the store stands at or behind what was acknowledged, and holds
    exactly the stream up to there, each experience in its first revision."""
    url, draw, published = server.new_database(), random.Random(11), set[tuple[int, int]]()

    for seed in range(8):
        said, out = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(said)
                _write_until_killed(url, facts, out, seed)
            finally:
                os._exit(1)
        os.close(out)
        with os.fdopen(said) as words:
            heard = [words.readline() for _ in range(draw.randint(1, 25))]
            if seed % 2:
                server.stop(signal.SIGKILL)
                server.start()
            else:
                os.kill(child, signal.SIGKILL)
            heard += words.readlines()
        os.waitpid(child, 0)
        lines = [line.split() for line in heard if line.endswith("\n")]
        acknowledged = max((int(one[1]) for one in lines if one[0] == "at"), default=0)
        published |= {(int(one[1]), int(one[2])) for one in lines if one[0] == "published"}
        with PostgresReader(url) as reader:
            place = reader.position()
            cycles = [one.cycle for one in reader.cycles.last("echo", 100_000)]
        assert place >= acknowledged
        assert cycles == list(range(1, (place + 1) // 9 + 1))  # a verdict stands with the cycle's seventh fact

    with PostgresStore(url) as store:
        published |= {(one.cycle or 0, one.revision) for one in store.unpublished()}
        acts = store._file.row("SELECT count(*), count(DISTINCT cycle) FROM acts")
    assert published == {(cycle, 1) for cycle in cycles}
    assert acts[0] == acts[1]
    assert acts[0] - len(cycles) in (0, 1)


def test_a_deadline_is_kept_by_the_server(url: str, facts: Facts, shared_events: Apply) -> None:
    """What waits is found by another process that opens the store."""
    with PostgresStore(url) as store:
        shared_events(store, facts.weights(), facts.act(1), now=facts.at(1))
    with PostgresStore(url) as store:
        assert store.next_deadline() is not None
        [experience] = store.expire(facts.at(1) + timedelta(hours=1))
        assert not experience.complete

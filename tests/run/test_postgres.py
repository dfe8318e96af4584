"""Runs whose experiences are in a PostgreSQL database: the commands read them there, and its faults cost nothing."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

import psutil
import pytest

from conch.experience import PostgresReader
from tests.postgres import PASSWORD, QUOTED, PostgresServer, postgres_server

if TYPE_CHECKING:
    from tests.run.conftest import House


@pytest.fixture
def server(lacking: Callable[[str], NoReturn]) -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    with postgres_server(lacking) as made:
        yield made


def cycles_in(url: str) -> list[int]:
    """The cycles that the database has, in the order of the stream."""
    with PostgresReader(url) as store:
        return [one.cycle or 0 for one in store.cycles.last(None, 100_000)]


def test_a_run_and_the_commands_use_the_database_that_is_named(house: House, postgres: PostgresServer) -> None:
    """No file of SQLite's is made; the cycles go on in a second run, the marks verify; no password is written."""
    url = postgres.new_database()
    environment = {"CONCH_STORE__URL": url, "CONCH_LOG__LEVEL": "debug"}
    script = house.script("DO_NOTHING: resting", 'TOOL: filesystem(operation="read", path="readme.txt")')

    said = [house.run("--cycles", "2", "--script", script, page=True, **environment).told() for _ in range(2)]
    commands = (("status", "--json"), ("cycle", "list", "--json"), ("mark", "verify"), ("doctor",), ("config", "show"))
    answers = [house.conch(*command, **environment) for command in commands]

    written = "\n".join((*said, *answers)) + "".join(
        file.read_bytes().decode(errors="replace") for file in house.home.rglob("*") if file.is_file()
    )
    assert cycles_in(url) == [0, 1, 2, 3]
    assert [row["cycle"] for row in json.loads(answers[1])["cycles"]] == [0, 1, 2, 3]
    assert not list(house.home.glob("store.db*"))
    assert QUOTED not in written
    assert PASSWORD not in written


def test_a_home_moves_to_a_database_and_goes_on(house: House, postgres: PostgresServer) -> None:
    """`conch data import` says what it copied; the next run has its next cycle."""
    url = postgres.new_database()
    house.live_through(3)

    said = house.conch("data", "import", "--from", "sqlite:///store.db", "--to", url, "--json")
    live = house.run("--cycles", "1", "--script", house.endless(), CONCH_STORE__URL=url)

    assert {row["table"]: row["rows"] for row in json.loads(said)["tables"]}["acts"] == 3
    assert QUOTED not in said
    assert [row["cycle"] for row in live.rows] == [3]
    assert cycles_in(url) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda url: url.replace(QUOTED, "wrong"), "refuses the user"),
        (lambda url: f"{url}x", "has no such database"),
        (lambda url: url.replace("127.0.0.1", "127.0.0.2"), "does not answer"),
        (lambda url: url.replace("127.0.0.1:", "127.0.0.1:x"), "store.url is no address of a database"),
        (lambda url: url.rpartition("/")[0], "store.url is no address of a database"),
        (lambda url: url.replace("postgresql://", "mysql://"), "store.url begins with 'mysql'"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence(
    house: House, postgres: PostgresServer, change: Callable[[str], str], sentence: str
) -> None:
    """With what to do, and without the password."""
    url = change(postgres.new_database())
    house.live_through(1)

    said = house.start("cycle", "list", CONCH_STORE__URL=url)

    assert said.ended() in (1, 2)
    assert sentence in said.said
    assert said.said.count("\n") == 1
    assert QUOTED not in said.told()
    assert "wrong" not in said.told()


def test_a_run_begins_with_a_server_that_answers(house: House, server: PostgresServer) -> None:
    """Else it is refused at once, with what to do; the home is as before."""
    url = server.new_database()
    house.live_through(1)
    server.stop()

    said = house.refused("run", "--cycles", "1", "--script", house.endless(), status=1, CONCH_STORE__URL=url)

    assert "does not answer" in said
    assert QUOTED not in said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_is_started_again_has_every_cycle(
    house: House, server: PostgresServer, how: signal.Signals
) -> None:
    """Killed or stopped in the midst of a run: the run goes on, nothing is lost and nothing joined twice."""
    url = server.new_database()
    live = house.begin("--script", house.endless(), interval=0.05, CONCH_STORE__URL=url)
    live.recorded(5)

    server.stop(how)
    live.says("Cycles are recorded once it answers")
    server.start()
    live.recorded(5)
    live.signal(signal.SIGTERM)

    assert live.ended() == 0, live.told()
    assert "Traceback" not in live.said
    found = cycles_in(url)
    assert found == list(range(len(found)))
    assert {row["cycle"] for row in live.rows} <= set(found)
    house.conch("mark", "verify", CONCH_STORE__URL=url)


def test_store_workers_share_the_agents_of_a_run(house: House, postgres: PostgresServer) -> None:
    """`conch consume store --workers 2` beside the run's own store: each says which partitions it has, one that is
    killed is replaced, and at the end each agent's cycles are complete, once each, and its marks verify."""
    url = postgres.new_database()
    environment = {"CONCH_STORE__URL": url}
    live = house.begin("--agents", "6", "--script", house.endless(), interval=0.3, **environment)
    live.recorded(6)

    beside = house.start("consume", "store", "--workers", "2", **environment)
    beside.says(r"of 16 partitions: \d.*\n(.*\n)*.*of 16 partitions: \d")
    live.recorded(12)
    victim = next(one for one in psutil.Process(beside.pid).children() if "store" in one.cmdline())
    victim.kill()
    beside.says(r"died \(SIGKILL\) and is started again")
    live.recorded(12)
    beside.signal(signal.SIGTERM)
    assert beside.ended() == 0, beside.told()
    live.recorded(6)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()

    assert "Traceback" not in live.said + beside.said
    with PostgresReader(url) as store:
        found = {agent: [one.cycle for one in store.cycles.last(agent, 9999)] for agent in store.agents()}
        revised = [one for agent in found for one in store.cycles.last(agent, 9999) if one.revision > 1]
    assert len(found) == 6
    assert all(cycles == list(range(len(cycles))) and len(cycles) > 5 for cycles in found.values())
    assert not revised
    for agent in ("echo-1", "echo-2"):
        house.conch("mark", "verify", "--agent", agent, **environment)

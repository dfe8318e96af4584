"""`bus.url`: a NATS server of one's own, with and without a token; and what is said when it cannot be used."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.run.servers import Server

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse


TOKEN = "a-token-of-ones-own"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Two open ones, one with a token, one without JetStream."""
    place = tmp_path_factory.mktemp("servers")
    made = {
        "open": Server(place / "open", "-js", "-sd", str(place / "open" / "store")),
        "fresh": Server(place / "fresh", "-js", "-sd", str(place / "fresh" / "store")),
        "token": Server(place / "token", "-js", "-sd", str(place / "token" / "store"), "--auth", TOKEN),
        "plain": Server(place / "plain"),
    }
    yield made
    for server in made.values():
        server.close()


def test_a_run_uses_a_server_of_ones_own(house: House, servers: dict[str, Server]) -> None:
    """With its token, which is not written down: no server is started, that one outlives the run, a later one goes on;
    what cannot be seen of it is said."""
    environment = {"CONCH_BUS__URL": servers["token"].url, "CONCH_BUS__TOKEN": TOKEN}
    live = house.begin("--script", house.endless(), interval=0.05, page=True, **environment)
    live.recorded(2)
    assert [one["name"] for one in house.status()["processes"]] == ["agent", "consumers", "dashboard"]
    assert house.status()["bus"] == {"url": servers["token"].url, "embedded": False}
    house.conch("status", **environment)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    more = house.run("--cycles", "2", "--script", house.endless(), **environment)

    rows = house.cycles()
    assert [row["cycle"] for row in rows] == list(range(more.rows[-1]["cycle"] + 1))
    assert all(row["complete"] for row in rows)
    assert not (house.home / "bus").exists()
    assert more.said.count("sync_interval: always") == 1
    house.assert_nothing_runs()


@pytest.mark.parametrize(
    ("which", "token", "told"),
    [
        pytest.param("token", "wrong", "refused the token", id="wrong token"),
        pytest.param("token", None, "lets nobody in without a name", id="no token"),
        pytest.param("plain", None, "JetStream", id="no JetStream"),
        pytest.param(None, None, "no bus at nats://127.0.0.1:9", id="nobody there"),
    ],
)
def test_a_server_that_cannot_be_used_ends_the_run(
    house: House, servers: dict[str, Server], which: str | None, token: str | None, told: str
) -> None:
    """Exit code 3, in a sentence."""
    environment = {"CONCH_BUS__URL": servers[which].url if which else "nats://127.0.0.1:9"}
    if token is not None:
        environment["CONCH_BUS__TOKEN"] = token

    assert told in house.refused("run", "--cycles", "1", "--script", house.endless(), status=3, **environment)
    house.assert_nothing_runs()


def test_two_agents_of_one_name_do_not_share_a_server(make_house: MakeHouse, servers: dict[str, Server]) -> None:
    """The second home is refused before it has said anything: while the first one runs as its agent is in that run,
    and afterwards as its agent is another one of the same name."""
    environment = {"CONCH_BUS__URL": servers["open"].url}
    first, second = make_house(), make_house()
    live = first.begin("--script", first.endless(), interval=0.05, **environment)
    live.recorded(2)

    meanwhile = second.refused("run", "--cycles", "1", "--script", second.endless(), status=1, **environment)
    live.recorded(2)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    sentence = second.refused("run", "--cycles", "1", "--script", second.endless(), status=3, **environment)

    assert meanwhile.startswith("another run on this bus has echo (")
    assert "another agent named echo" in sentence
    assert all(row["complete"] for row in first.cycles())
    first.conch("mark", "verify")


def test_two_homes_share_a_stream_and_one_store(make_house: MakeHouse, servers: dict[str, Server]) -> None:
    """The second home is told whose store there is; without one of its own it has agents and consumers on that stream,
    and the first home's store records what they do."""
    environment = {"CONCH_BUS__URL": servers["fresh"].url}
    first, second = make_house(), make_house()
    other = environment | {"CONCH_AGENT": "other"}
    live = first.begin("--script", first.endless(), interval=0.05, **environment, CONCH_AGENT="third")
    live.recorded(2)

    sentence = second.refused("run", "--cycles", "1", "--script", second.endless(), status=3, **other)
    alone = second.refused("consume", "store", status=3, **other)
    shared = second.run("--cycles", "2", "--script", second.endless(), "--without", "store", **other)

    assert sentence == alone
    assert "another home stores what happens on the stream on nats://127.0.0.1" in sentence
    assert "--without store" in sentence
    assert [(row["agent"], row["complete"]) for row in shared.rows] == [("other", True)] * 2
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    told = json.loads(first.conch("cycle", "list", "--agent", "other", "--json", **environment))
    assert [row["cycle"] for row in told["cycles"]] == [0, 1]

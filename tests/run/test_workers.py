"""`conch agent run`: agents on a machine of their own, on the bus of another one, with real servers and processes."""

from __future__ import annotations

import json
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from conch.auth import LoginTokens
from conch.home import Home
from tests.run.conftest import House
from tests.run.servers import Server

if TYPE_CHECKING:
    from tests.run.conftest import Live

WRITE = 'TOOL: filesystem(operation="write", path="made.txt", content="made by the agent")'
WORKERS = ("echo-11", "echo-12", "echo-13", "echo-14")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a NATS server of this test's own."""
    server = Server(tmp_path / "server", "-js", "-sd", str(tmp_path / "server" / "store"))
    yield server.url
    server.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str], House]]:
    """`machine(name)`: a home as on a machine of that name."""
    made: list[House] = []

    def make(name: str) -> House:
        (tmp_path / name).mkdir()
        made.append(House(tmp_path / name, furnished=True))
        return made[-1]

    yield make
    for house in made:
        house.close()


def worker(house: House, url: str, agents: str, *more: str, interval: float = 0.05) -> Live:
    """`conch agent run --json`, going."""
    options = ("--json", "--interval", str(interval), "--script", house.endless(WRITE), *more)
    return house.start("agent", "run", "--agents", agents, *options, CONCH_BUS__URL=url)


def cycles_of(house: House) -> dict[str, list[int]]:
    """The recorded cycles of each agent, by number."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in house.cycles():
        found[row["agent"]].append(row["cycle"])
    return {name: sorted(cycles) for name, cycles in found.items()}


@pytest.mark.torture
def test_a_worker_that_is_killed_loses_and_doubles_nothing(url: str, machine: Callable[[str], House]) -> None:
    """Kill -9 of one of its agent processes in the middle of a cycle, then of all of it: its agents go on with their
    numbers, the run on the other machine scores and records all of them, and its own agents go on meanwhile."""
    main, other = machine("main"), machine("other")
    run = main.begin("--agents", "2", "--script", main.endless(), interval=0.2, CONCH_BUS__URL=url)
    live = worker(other, url, "11..14", "--processes", "2")
    live.recorded(12)
    second = other.process("agent-2")["pid"]

    os.kill(other.process("agent-1")["pid"], signal.SIGKILL)
    live.until(lambda: other.process("agent-1")["restarts"] == 1, "the restart")
    live.recorded(12)
    assert other.process("agent-2")["pid"] == second
    live.signal(signal.SIGKILL, group=True)
    live.ended()
    other.assert_nothing_runs(10.0, besides="bwrap")
    again = worker(other, url, "11..14", "--processes", "2", "--cycles", "2")

    assert again.ended() == 0, again.told()
    assert {row["agent"] for row in again.rows} == set(WORKERS)
    run.recorded(2)
    run.signal(signal.SIGTERM)
    assert run.ended() == 0
    cycles = cycles_of(main)
    assert set(cycles) == {"echo-1", "echo-2", *WORKERS}
    for name, numbers in cycles.items():
        assert numbers == list(range(len(numbers))), name
        assert json.loads(main.conch("mark", "verify", "--agent", name, "--json", CONCH_BUS__URL=url))["ok"] is True
    assert all(row["complete"] for row in main.cycles())
    assert [(other.home / "workspace" / name / "made.txt").exists() for name in WORKERS] == [True] * 4
    assert not (other.home / "store.db").exists()


def test_a_second_run_of_an_agent_is_refused(url: str, machine: Callable[[str], House]) -> None:
    """In one sentence that names the agents and the other run, with exit code 1; the first one goes on, and once it has
    ended in order its agents are free at once."""
    main, other = machine("main"), machine("other")
    run = main.begin("--agents", "2", "--script", main.endless(), interval=0.2, CONCH_BUS__URL=url)
    live = worker(other, url, "11..14", interval=0.2)
    live.recorded(4)
    third = machine("third")

    sentence = third.refused("agent", "run", "--agents", "13..20", status=1, CONCH_BUS__URL=url)
    of_the_run = third.refused("agent", "run", "--agents", "1..1", status=1, CONCH_BUS__URL=url)
    live.recorded(4)

    assert sentence == (
        f"another run on this bus has echo-13..14 (host {os.uname().nodename}, process {live.pid}, home {other.home}): "
        "name other agents (--agents), or stop that run"
    )
    assert of_the_run.startswith("another run on this bus has echo-1 (")
    other.conch("stop", CONCH_BUS__URL=url)
    assert live.ended() == 0
    again = worker(other, url, "11..14", "--cycles", "1")
    assert again.ended() == 0, again.told()
    assert not {row["agent"] for row in third.cycles()} if (third.home / "store.db").exists() else True
    run.signal(signal.SIGTERM)
    assert run.ended() == 0


def test_the_commands_work_in_the_home_of_a_worker(url: str, machine: Callable[[str], House]) -> None:
    """Status, pause and a message, of its own agents alone."""
    main, other = machine("main"), machine("other")
    run = main.begin("--agents", "2", "--script", main.endless(), interval=0.2, CONCH_BUS__URL=url)
    live = worker(other, url, "11..14", "--processes", "2")
    live.recorded(4)

    other.conch("pause", CONCH_BUS__URL=url)
    theirs = json.loads(other.conch("status", "--json", CONCH_BUS__URL=url))
    ours = json.loads(main.conch("status", "--json", CONCH_BUS__URL=url))
    other.conch("tell", "sleep well", "--agent", "echo-14", CONCH_BUS__URL=url)
    told = json.loads(other.conch("status", "--agent", "echo-14", "--json", CONCH_BUS__URL=url))["agent"]
    other.conch("stop", CONCH_BUS__URL=url)

    assert live.ended() == 0
    assert theirs["states"] == {"paused": 4}
    assert [one["name"] for one in theirs["processes"]] == ["agent-1", "agent-2"]
    assert ours["states"] == {"running": 2}
    assert told["waiting"] == ["sleep well"]
    run.signal(signal.SIGTERM)
    assert run.ended() == 0


def test_the_page_of_the_run_reaches_the_agents_of_a_worker(url: str, machine: Callable[[str], House]) -> None:
    """What is told there is read by the agent itself; one whose worker has ended is not written to in another's
    name."""
    main, other = machine("main"), machine("other")
    script = main.endless()
    run = main.begin("--agents", "2", "--ui-port", "0", "--script", script, interval=0.2, CONCH_BUS__URL=url)
    live = worker(other, url, "11..12", interval=0.1)
    live.recorded(4)
    run.until(lambda: main.status().get("ui"), "the page's address")
    headers = {"Authorization": f"Bearer {LoginTokens(Home(main.home)).token()}"}

    with httpx2.Client(base_url=f"{main.status()['ui']}/api/v1/agents/echo-12", headers=headers, timeout=20) as api:
        paused = api.post("/pause")
        told = api.post("/tell", json={"text": "sleep well"})
        state = json.loads(other.conch("status", "--agent", "echo-12", "--json", CONCH_BUS__URL=url))["agent"]
        other.conch("stop", CONCH_BUS__URL=url)
        assert live.ended() == 0
        late = api.post("/tell", json={"text": "are you there?"})

    assert (paused.status_code, told.json()["running"]) == (200, True)
    assert (state["state"], state["waiting"]) == ("paused", ["sleep well"])
    assert late.status_code >= 400
    assert "its home is another one" in late.text
    assert not (main.home / "agents" / "echo-12" / "agentuid").exists()
    run.signal(signal.SIGTERM)
    assert run.ended() == 0


@pytest.mark.parametrize("share", ["20..11", "0..3", "11", "11-14", "a..b", "1..99999"])
def test_a_wrong_share_is_refused(house: House, share: str) -> None:
    """Before a home is made."""
    sentence = house.refused("agent", "run", "--agents", share, status=2, CONCH_BUS__URL="nats://127.0.0.1:1")

    assert sentence.startswith(f"--agents {share}: ")
    assert not house.home.exists()


def test_a_worker_without_a_bus_is_refused(house: House) -> None:
    """None is named; or the one that is named is away, which is exit code 3."""
    assert "set bus.url" in house.refused("agent", "run", "--agents", "1..2", status=2)
    sentence = house.refused("agent", "run", "--agents", "1..2", status=3, CONCH_BUS__URL="nats://127.0.0.1:1")
    assert sentence.startswith("no bus at nats://127.0.0.1:1")
    house.assert_nothing_runs()

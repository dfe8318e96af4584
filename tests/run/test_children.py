"""A process of the run that dies is started again; one that keeps dying is left down; the rest goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.run.conftest import House


DIES_WHEN_IMPORTED = """
import os, sys
from conch import consumer
from conch_schemas import ActionTaken

@consumer(ActionTaken, name="mayfly")
def mayfly(action):
    return None

if "conch.consumer.plugins.discover" not in sys.argv[0] and "discover" not in sys.argv[0]:
    os._exit({status})
"""


@pytest.mark.parametrize("name", ["agent", "consumers", "nats-server"])
def test_a_child_that_is_killed_comes_back(house: House, name: str) -> None:
    """Kill -9 of one child: it is started again, `conch status` tells so, and no cycle and no score is lost."""
    live = house.begin("--script", house.endless(), interval=0.02)
    live.recorded(2)

    os.kill(house.process(name)["pid"], signal.SIGKILL)

    live.until(lambda: house.process(name)["restarts"] == 1 and house.process(name)["state"] == "up", "the restart")
    told = house.conch("status")
    live.recorded(3)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    assert f"{name} up (1 restarts)" in told
    assert "SIGKILL" in told
    rows = house.cycles()
    assert [row["cycle"] for row in rows] == list(range(len(rows)))
    assert all(row["complete"] and row["coverage"] == 1.0 for row in rows)
    house.conch("mark", "verify")
    assert json.loads(house.conch("dlq", "list", "--json"))["letters"] == []


@pytest.mark.parametrize("name", ["consumers", "dashboard"])
def test_a_child_that_was_ended_in_order_comes_back(house: House, name: str) -> None:
    """A SIGTERM that somebody else sent: without its consumers a run would act on and score nothing."""
    live = house.begin("--script", house.endless(), interval=0.1, page=True)
    live.recorded(2)
    live.until(lambda: house.status()["ui"], "the dashboard")

    os.kill(house.process(name)["pid"], signal.SIGTERM)

    live.until(lambda: house.process(name)["restarts"] == 1 and house.process(name)["state"] == "up", "the restart")
    live.recorded(2)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    assert all(row["complete"] for row in house.cycles())


def test_an_agent_that_is_killed_goes_on_in_its_script(house: House) -> None:
    """Started again within the run, it gives the reply that is next, not the first one, and ends where it would."""
    replies = [f"DO_NOTHING: reply {number}" for number in range(120)]
    live = house.begin("--script", house.script(*replies), interval=0.02)
    live.recorded(3)

    os.kill(house.process("agent")["pid"], signal.SIGKILL)

    assert live.ended() == 0
    assert [row["raw"] for row in live.rows] == replies


def test_a_run_of_some_cycles_makes_no_more_of_them_after_a_restart(house: House) -> None:
    """`--cycles` counts from the run's start, however often its agent died."""
    live = house.begin("--script", house.endless(), "--cycles", "40", interval=0.05)
    live.recorded(3)

    os.kill(house.process("agent")["pid"], signal.SIGKILL)

    assert live.ended() == 0
    assert [row["cycle"] for row in live.rows] == list(range(40))


@pytest.mark.parametrize(("status", "why"), [(3, "exit status 3"), (0, "exit status 0, its work undone")])
def test_a_consumer_that_dies_at_every_start_is_left_down(house: House, status: int, why: str) -> None:
    """Five deaths in a minute: it stays down and `conch status` says why; the cycle and all other scores go on. An exit
    status of 0 is no end of its work where it has not said so."""
    rules = house.directory / "mayfly.py"
    rules.write_text(DIES_WHEN_IMPORTED.replace("{status}", str(status)))
    live = house.begin("--rules", str(rules), "--script", house.endless(), interval=0.05)

    live.until(lambda: live.rows and house.process("mayfly")["state"] == "down", "the giving up")
    live.recorded(2)
    told = house.conch("status")
    live.signal(signal.SIGTERM)

    assert live.ended() == 0
    assert "mayfly down" in told
    assert why in told
    assert "mayfly stays down: it died 5 times in a minute" in live.said
    assert all(row["complete"] for row in live.rows)


def test_a_server_that_keeps_dying_ends_the_run(house: House) -> None:
    """Without a bus nothing can be recorded: after the fifth death the run ends with 3 and says where to look."""
    live = house.begin("--script", house.endless(), interval=0.05)
    live.recorded(1)

    for death in range(5):
        live.until(lambda death=death: house.process("nats-server")["restarts"] == death, f"restart {death}")
        live.until(lambda: house.process("nats-server")["state"] == "up", "the server")
        os.kill(house.process("nats-server")["pid"], signal.SIGKILL)

    assert live.ended() == 3
    assert "nats-server died 5 times in a minute" in live.said
    assert "Traceback" not in live.said
    house.assert_nothing_runs()
    house.run("--cycles", "1", "--script", house.endless())


@pytest.mark.skipif(sys.platform != "linux", reason="tells a stopped process by /proc")
@pytest.mark.parametrize("name", ["agent", "consumers", "nats-server"])
def test_a_process_that_does_not_respond_is_said(house: House, name: str) -> None:
    """Stopped, it is named within seconds on the terminal, in `conch status` and in the log, with how it goes on; when
    it is back that is said, and nothing was lost."""
    live = house.begin("--script", house.endless(), interval=0.1)
    live.recorded(2)
    pid = house.process(name)["pid"]

    os.kill(pid, signal.SIGSTOP)
    live.says(rf"no response from {name} for 1\d s: stopped \(kill -CONT {pid}\)")
    told = house.conch("status")
    os.kill(pid, signal.SIGCONT)
    live.says(rf"{name} responding again after \d+ s")

    live.recorded(2)
    state = house.process(name)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    assert f"{name} silent" in told
    assert re.search(rf"{name}: no response since \d\d:\d\d:\d\d UTC: stopped \(kill -CONT {pid}\)", told)
    assert (state["state"], state["why"], state["restarts"]) == ("up", "", 0)
    log = (house.home / "logs" / "run.log").read_text()
    assert "process.silent" in log
    assert "process.responds" in log
    rows = house.cycles()
    assert [row["cycle"] for row in rows] == list(range(len(rows)))


def test_a_child_that_starts_while_the_server_is_away_waits_for_it(house: House) -> None:
    """A server that is stopped for a while, and the consumers killed meanwhile: both go on, and so does the run."""
    live = house.begin("--script", house.endless(), interval=0.1)
    live.recorded(2)
    server = house.process("nats-server")["pid"]
    os.kill(server, signal.SIGSTOP)

    os.kill(house.process("consumers")["pid"], signal.SIGKILL)
    live.says("no response from nats-server for 1")
    os.kill(server, signal.SIGCONT)

    live.recorded(2)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    assert house.cycles()[0]["cycle"] == 0
    assert json.loads(house.conch("dlq", "list", "--json"))["letters"] == []

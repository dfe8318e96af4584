"""How a run ends: by Ctrl-C, by a signal, by request, by a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus.server import find_binary

if TYPE_CHECKING:
    from tests.run.conftest import House


GONE_SECONDS = 2.0


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda house, live: live.signal(signal.SIGINT, group=True), id="Ctrl-C"),
        pytest.param(lambda house, live: live.signal(signal.SIGTERM), id="SIGTERM"),
        pytest.param(lambda house, live: house.conch("stop"), id="conch stop"),
    ],
)
def test_a_run_ends_in_order(house: House, ask: Callable[[Any, Any], None]) -> None:
    """However it is asked, the cycle in hand is finished, all is recorded, all processes end, and that is a success."""
    live = house.begin("--script", house.endless(), page=True)
    live.recorded(5)

    ask(house, live)

    assert live.ended(20) == 0
    house.assert_nothing_runs()
    assert not (house.home / "run.json").exists()
    rows = house.cycles()
    assert [row["cycle"] for row in rows] == list(range(len(live.rows)))
    assert all(row["complete"] for row in rows)
    assert "Traceback" not in live.said
    assert not [log for log in (house.home / "logs").iterdir() if "process.killed" in log.read_text()]
    house.conch("mark", "verify")


@pytest.mark.parametrize("sign", ["format", "conch.yaml", "bus/nats-server.pid", "run.json"])
def test_a_run_can_be_ended_while_it_starts(house: House, sign: str) -> None:
    """However far it has come: everything ends, nothing is said but why, and the home can be used."""
    live = house.begin("--script", house.endless())
    live.until((house.home / sign).exists, sign)

    live.signal(signal.SIGINT, group=True)

    assert live.ended(20) in (0, 130), live.told()
    house.assert_nothing_runs()
    assert "Traceback" not in live.said
    rows = house.run("--cycles", "1", "--script", house.endless()).rows
    assert [row["cycle"] for row in house.cycles()] == list(range(rows[-1]["cycle"] + 1))


def test_a_second_ctrl_c_ends_a_run_at_once(house: House, needs: Callable[[str, str], None]) -> None:
    """Whoever presses it twice does not wait for the tool in hand; the next run says its outcome is unknown."""
    needs("bwrap", "install bubblewrap")
    live = house.begin(
        "--script", house.script('TOOL: shell(command="touch begun; sleep 300")'), CONCH_TOOLS__TIMEOUT="300"
    )
    live.until((house.workspace / "begun").exists, "the tool's start")

    live.signal(signal.SIGINT, group=True)
    live.until(lambda: json.loads(house.conch("status", "--json"))["agent"]["state"] == "stopping", "the stopping")
    live.signal(signal.SIGINT, group=True)

    assert live.ended(GONE_SECONDS + 3) == 130
    assert "Traceback" not in live.said
    house.assert_nothing_runs(GONE_SECONDS)
    [row, *_] = house.run("--cycles", "1", "--script", house.endless()).rows
    assert (row["cycle"], row["outcome"]) == (0, "unknown")


def test_nothing_outlives_a_killed_supervisor(house: House) -> None:
    """Kill -9 of `conch run` alone: server, agent and consumers are gone within two seconds; the next run goes on."""
    live = house.begin("--script", house.endless(), interval=0.05)
    live.recorded(2)
    before = house.processes()

    os.kill(live.pid, signal.SIGKILL)

    began = time.monotonic()
    house.assert_nothing_runs(GONE_SECONDS)
    assert time.monotonic() - began < GONE_SECONDS
    assert len(before) >= 4
    live.ended()
    rows = house.run("--cycles", "1", "--script", house.endless()).rows
    assert [row["cycle"] for row in house.cycles()] == list(range(rows[-1]["cycle"] + 1))


def test_a_server_that_was_left_behind_is_replaced(house: House) -> None:
    """A nats-server that still holds the home's store is ended by the next run, which starts one of its own."""
    house.run("--cycles", "1", "--script", house.endless())
    place = house.home / "bus"
    left = subprocess.Popen([find_binary(), "-c", str(place / "nats-server.conf")], start_new_session=True)
    while not (place / f"nats-server_{left.pid}.ports").exists():
        assert left.poll() is None

    live = house.run("--cycles", "1", "--script", house.endless())

    assert left.wait(1) is not None
    assert [row["cycle"] for row in live.rows] == [1]
    house.assert_nothing_runs()

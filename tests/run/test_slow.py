"""Runs whose disk, consumers or rules are far slower than the agent: late, but whole."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable

import psutil
import pytest

from tests.run.conftest import House

pytestmark = pytest.mark.torture
STRACE = ("strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e")
SLOW_RULE = """
import time
from conch import rule

@rule(weight=0.1)
def patience(action):
    time.sleep(0.1)
    return 0.5
"""


def assert_whole(house: House, cycles: int) -> None:
    """Every cycle is recorded once with all its scores, and the marks prove it."""
    rows = house.cycles()
    assert [row["cycle"] for row in rows] == list(range(cycles))
    assert [row["cycle"] for row in rows if not row["complete"]] == []
    assert json.loads(house.conch("mark", "verify", "--json"))["ok"]


@pytest.fixture
def slow_disk(house: House, needs: Callable[[str, str], None]) -> House:
    """A home of a machine on which each fsync and fdatasync, of the server and of the store, takes 20 ms more."""
    needs("strace", "apt install strace")
    slower = (*STRACE, "inject=fsync,fdatasync:delay_exit=20000")
    if subprocess.run([*slower, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets no process trace another")
    house.command = (*slower, *house.command)
    return house


def test_a_run_on_a_disk_ten_times_slower_is_whole(slow_disk: House) -> None:
    """Killed in the middle, too: it goes on where it was."""
    script = slow_disk.endless()
    live = slow_disk.begin("--cycles", "20", "--script", script)
    live.recorded(4)
    live.signal(signal.SIGKILL, group=True)
    live.ended()
    slow_disk.assert_nothing_runs()
    done = len(slow_disk.cycles())

    slow_disk.run("--cycles", "6", "--script", script)

    assert len(slow_disk.cycles()) >= done + 6
    assert_whole(slow_disk, len(slow_disk.cycles()))


def test_a_rule_that_is_ten_times_slower_than_the_cycle_scores_every_act(house: House) -> None:
    """The others do not wait for it; the run ends once it has caught up."""
    rule = house.directory / "patience.py"
    rule.write_text(SLOW_RULE)

    house.run("--cycles", "40", "--script", house.endless(), "--rules", str(rule))

    assert_whole(house, 40)


def test_a_burst_that_outruns_the_store_is_recorded_whole(house: House) -> None:
    """While the consumers' process stands still the agent goes on; what it did meanwhile is joined afterwards."""
    live = house.begin("--cycles", "400", "--script", house.endless())
    live.recorded(3)
    consumers = psutil.Process(house.process("consumers")["pid"])
    consumers.suspend()
    agent = house.home / "logs" / "agent.log"
    live.until(lambda: agent.read_text().count("action.taken") > 200, "200 acts")
    consumers.resume()

    assert live.ended() == 0, live.told()
    assert_whole(house, 400)

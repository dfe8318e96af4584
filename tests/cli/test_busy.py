"""A home that another command owns."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from conch.cli import common as shared
from conch.cli.common import open_bus, owned_in_turn, owned_soon
from conch.config import Settings
from conch.errors import HomeBusyError
from conch.home import Home

OWNS = """
import sys
from conch.home import Home
with Home.at(sys.argv[1]).owned():
    print("owned", flush=True)
    sys.stdin.read()
"""
"""A command that owns a home until its standard input ends."""


async def test_another_command_is_waited_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second goes on once the first has let go of the home."""
    waited = []
    with ExitStack() as first:
        first.enter_context(home.owned())
        sleep = asyncio.sleep

        async def until_it_lets_go(seconds: float) -> None:
            waited.append(seconds)
            first.close()
            await sleep(0)

        monkeypatch.setattr(shared.asyncio, "sleep", until_it_lets_go)
        entered = open_bus(home, Settings())
        access = asyncio.create_task(entered.__aenter__())
        while not waited and not access.done():
            await sleep(0)
        monkeypatch.undo()
        bus = await access
        assert (await bus.state()).last == 0
        await entered.__aexit__(None, None, None)

    assert waited == [shared.BUSY_POLL_SECONDS]


async def test_one_that_does_not_end_is_named_for_what_it_is(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is to be stopped where there is none."""
    monkeypatch.setattr(shared, "BUSY_SECONDS", 0.0)

    with home.owned(), pytest.raises(HomeBusyError, match=f"process {os.getpid()}: that is another command of conch"):
        async with open_bus(home, Settings()):
            pass


def test_a_run_waits_for_a_command_that_is_soon_done(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins once the other process has let go of the home."""
    other = subprocess.Popen(
        [sys.executable, "-c", OWNS, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    waited = list[float]()

    def until_it_lets_go(seconds: float) -> None:
        waited.append(seconds)
        other.communicate()

    monkeypatch.setattr(shared, "time", SimpleNamespace(monotonic=time.monotonic, sleep=until_it_lets_go))
    with owned_soon(home):
        assert waited == [shared.BUSY_POLL_SECONDS]


async def test_a_command_that_does_not_end_refuses_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """After BUSY_SECONDS, with the process that owns the home."""
    monkeypatch.setattr(shared, "BUSY_SECONDS", 0.0)

    with home.owned(), pytest.raises(HomeBusyError, match=f"in use by process {os.getpid()}"), owned_soon(home):
        pass
    with home.owned(), pytest.raises(HomeBusyError, match=f"in use by process {os.getpid()}"):
        async with owned_in_turn(home):
            pass

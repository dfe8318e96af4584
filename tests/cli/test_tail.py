"""`conch bus tail`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import people_facts, tail
from conch.cli.common import CommonOptions
from conch.errors import BusUnreachableError, UsageError
from conch.home import Home

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


Printed = Callable[[], str]


@pytest.fixture(autouse=True)
def _short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_facts, "POLL_SECONDS", 0.02)


async def test_facts_are_followed_until_the_run_ends(
    life: Life,
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those from now on, each once, as JSON Lines in a pipe: place, time, subject and the event as it stands there."""
    async with in_progress() as bus:
        await publish(bus, life.act(0))
        following = asyncio.create_task(tail.tail(common=common))
        seen, number = "", 1
        while not seen:
            await publish(bus, life.act(number))
            number += 1
            await asyncio.wait({following}, timeout=0.05)
            seen += capsys.readouterr().out
        last = life.cycle(number)
        await publish(bus, *last)
    async with asyncio.timeout(30):
        await following

    rows = [json.loads(line) for line in (seen + capsys.readouterr().out).splitlines()]
    places = [row["seq"] for row in rows]
    assert places == list(range(places[0], number + 1 + len(last)))
    assert places[0] > 1
    assert rows[0]["subject"] == "conch.v1.echo.action.taken"
    assert rows[0]["event"]["id"] == life.act(places[0] - 1).id


async def test_without_a_run_what_was_is_read(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """Behind --after, of the kinds and the agent that are named, to its end; without --after there is nothing to do."""
    async with in_progress() as bus:
        await publish(bus, *life.cycle(0), replace(life, agent="delta").act(0))

    async def places(**options: Any) -> list[int]:
        await tail.tail(**options, common=common)
        return [json.loads(line)["seq"] for line in printed().splitlines()]

    assert await places(after=0) == list(range(1, 9))
    assert await places(after=5) == [6, 7, 8]
    assert await places(after=0, kind=["action.taken"]) == [2, 8]
    assert await places(after=0, kind=["action.taken", "thought.formed"], agent="echo") == [1, 2]
    assert await places(after=99) == []
    with pytest.raises(BusUnreachableError, match="read what was with --after 0"):
        await tail.tail(common=common)


async def test_a_line_is_a_line_whatever_it_says(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
    hostile: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a terminal: hostile text is harmless, and what is no event is shown with why."""
    async with in_progress() as bus:
        cycle = life.cycle(0, hostile)
        await publish(bus, *cycle)
        await bus.publish("conch.v1.echo.action.taken", b"\x1b[2J{", id="1")
        await bus.publish("conch.v1.\x9b31m.action.taken", b"\xff", id="2")

    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        await tail.tail(after=0, common=common)

    text = printed()
    assert "\x1b" not in text
    assert "\x9b" not in text
    lines = text.splitlines()
    assert len(lines) == len(cycle) + 2
    assert "action.taken" in lines[1]
    assert "not an event of version 1" in lines[-2]
    await tail.tail(after=len(lines) - 1, common=replace(common, json=True))
    assert json.loads(printed())["bytes"] == "/w=="


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kind": ["action.taken", "action.token"]}, "the nearest name is action.taken"),
        ({"agent": "a b"}, "no agent can be called 'a b'"),
        ({"agent": "*"}, "no agent can be called"),
    ],
)
async def test_what_there_cannot_be_is_a_sentence(common: CommonOptions, options: dict[str, Any], why: str) -> None:
    """Before a server is started for it."""
    with pytest.raises(UsageError, match=why):
        await tail.tail(after=0, **options, common=common)


async def test_ctrl_c_ends_it(life: Life, home: Home, in_progress: InProgress, publish: Publish) -> None:
    """At once, without a word; the run goes on."""
    async with in_progress() as bus:
        command = [sys.executable, "-m", "conch.cli.main", "bus", "tail", "--after", "0", "--home", str(home.path)]
        await publish(bus, life.act(0))
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ, start_new_session=True
        )
        assert process.stdout is not None
        async with asyncio.timeout(30):
            first = await process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, said = await process.communicate()

        assert json.loads(first)["seq"] == 1
        assert (process.returncode, said) == (130, b"")
        assert bus.connected

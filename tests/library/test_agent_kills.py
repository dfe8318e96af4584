"""A program that is killed at any of its lines, and started again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

import conch
from conch.bus.server import EmbeddedServer
from conch.python_child import environment
from conch_schemas import STREAM_SUBJECTS, ActionDecided, ActionTaken, CycleReflected, ThoughtFormed, decode
from tests.conftest import TOKEN
from tests.library.program import LINES, main


async def killed(url: str, done: Path, fatal: int) -> int:
    """The exit status of the program in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.library.program", url, TOKEN, str(done), str(fatal), env=environment()
    )
    async with asyncio.timeout(60):
        return await process.wait()


@pytest.mark.parametrize("fatal", range(1, LINES + 1))
async def test_a_program_that_is_killed_goes_on_without_a_hole(
    fatal: int, nats_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Cycles are numbered without a gap, each event is there once, each call that was made has one act; only the act
    that was in hand is unknown."""
    done = tmp_path / "done"
    assert await killed(nats_server.url, done, fatal) == -signal.SIGKILL

    await asyncio.to_thread(main, nats_server.url, TOKEN, done, 0)

    async with conch.connect(nats_server.url, token=TOKEN) as bus:
        events = [decode(delivery.data) async for delivery in bus.read(STREAM_SUBJECTS)]
    assert set(Counter(event.id for event in events).values()) == {1}
    thoughts = [event.cycle for event in events if isinstance(event, ThoughtFormed)]
    assert thoughts == list(range(len(thoughts)))
    assert [event.cycle for event in events if isinstance(event, CycleReflected)] == thoughts
    acts = [event for event in events if isinstance(event, ActionTaken)]
    assert [act.cycle for act in acts] == [event.cycle for event in events if isinstance(event, ActionDecided)]
    called = [int(line) for line in done.read_text().split()]
    assert len(set(called)) == len(called)
    succeeded = [act.cycle for act in acts if act.outcome.status == "success"]
    assert set(succeeded) <= set(called)
    assert {act.outcome.status for act in acts if act.cycle not in succeeded} <= {"unknown"}
    assert len(acts) - len(succeeded) <= 1

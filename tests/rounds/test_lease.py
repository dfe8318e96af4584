"""One trainer trains a lineage: the lease is a heartbeat, moved by compare-and-set."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from conch.bus import LeaseRecord, MemoryBus, lease_key
from conch.errors import TrainerBusyError
from conch.rounds import under_lease

if TYPE_CHECKING:
    from tests.conftest import Until

GONE = 2**22 + 1
"""A process id beyond the largest that Linux gives."""


async def nothing() -> str:
    return "done"


def foreign(host: str, pid: int) -> bytes:
    """The heartbeat of another trainer."""
    return LeaseRecord(host=host, pid=pid, owner="other", beat="1").encode()


async def test_a_second_trainer_is_refused_while_the_first_one_works() -> None:
    """It names the host and the process; when the first one is done, the next one may."""
    bus = MemoryBus()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        entered.set()
        await leave.wait()

    first = asyncio.create_task(under_lease(bus, "echo", work))
    await entered.wait()
    with pytest.raises(TrainerBusyError, match=f"host {socket.gethostname()}"):
        await under_lease(bus, "echo", nothing, patience=0.0)
    leave.set()
    await first

    assert await under_lease(bus, "echo", nothing, patience=0.0) == "done"


async def test_the_lease_of_a_process_that_is_gone_is_taken_over_at_once() -> None:
    """A trainer that was killed on this machine holds up nobody."""
    bus = MemoryBus()
    await bus.put(lease_key("echo"), foreign(socket.gethostname(), GONE), revision=0)

    assert await under_lease(bus, "echo", nothing, patience=0.0) == "done"


async def test_a_silent_trainer_of_another_machine_is_waited_for_and_then_replaced() -> None:
    """Only its heartbeat tells, by the reader's own clock."""
    bus = MemoryBus()
    await bus.put(lease_key("echo"), foreign("elsewhere", 1), revision=0)

    with pytest.raises(TrainerBusyError):
        await under_lease(bus, "echo", nothing, patience=0.0)

    assert await under_lease(bus, "echo", nothing, patience=0.05) == "done"


async def test_a_trainer_that_lost_its_lease_stops(monkeypatch: pytest.MonkeyPatch, until: Until) -> None:
    """Taken for dead and replaced, its work is cancelled at the next heartbeat; the other's lease stays."""
    monkeypatch.setattr("conch.rounds.lease.BEAT_SECONDS", 0.01)
    bus = MemoryBus()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    working = asyncio.create_task(under_lease(bus, "echo", work))

    async def is_taken() -> bool:
        entry = await bus.get(lease_key("echo"))
        if entry is None:
            return False
        try:
            await bus.put(lease_key("echo"), foreign("elsewhere", 1), revision=entry.revision)
        except Exception:
            return False
        return True

    await until(is_taken)
    with pytest.raises(TrainerBusyError, match="host elsewhere"):
        await working

    assert ended.is_set()
    entry = await bus.get(lease_key("echo"))
    assert entry is not None
    assert LeaseRecord.decode(entry.value).owner == "other"

"""The lease of a lineage: one trainer trains it. A heartbeat in the bucket, moved by compare-and-set.

A lease is over when its heartbeat has not changed for LEASE_SECONDS, by the reader's own monotonic clock, or when its
process is gone from this machine: a clock that jumps ends no lease. A trainer that was taken for dead reads another
owner at its next heartbeat, and stops.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar
from uuid import uuid4

import psutil

from conch.bus import CLEARED, Bus, KeyValue, LeaseRecord, lease_key
from conch.errors import BusError, ContractError, FencedError, TrainerBusyError
from conch.log import get_logger
from conch.tasks import OwnedTasks, cancel_and_wait

log = get_logger(__name__)
T = TypeVar("T")

BEAT_SECONDS: Final = 2.0
"""Seconds between two heartbeats."""
LEASE_SECONDS: Final = 10.0
"""A trainer without a heartbeat for this long is taken for dead."""


class LineageLease:
    """The lease of one lineage, once it is taken."""

    def __init__(self, bus: Bus, agent: str) -> None:
        self._bus, self._agent, self._key = bus, agent, lease_key(agent)
        self._owner, self._revision = uuid4().hex, 0

    async def take(self, patience: float = LEASE_SECONDS) -> None:
        """Take the lease. `patience`: seconds that a silent owner is watched; 0: not at all.

        Raises TrainerBusyError where another trainer has it.
        """
        heard: tuple[int, float] | None = None
        while True:
            entry = await self._bus.get(self._key)
            owner = _owner(entry)
            if owner is not None and not _is_gone(owner):
                assert entry is not None
                now = time.monotonic()
                if heard is None:
                    heard = entry.revision, now
                if heard[0] != entry.revision or not patience:
                    raise TrainerBusyError(self._refusal(owner))
                if now - heard[1] < patience:
                    await asyncio.sleep(min(BEAT_SECONDS / 2, patience))
                    continue
                log.warning("trainer.lease_over", agent_id=self._agent, host=owner.host, process=owner.pid)
            try:
                await self._beat(0 if entry is None else entry.revision)
            except FencedError:
                heard = None
                continue
            return

    async def keep(self) -> None:
        """Write heartbeats; never returns. Raises TrainerBusyError where another trainer has taken over."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self._beat(self._revision)
            except FencedError:
                entry = await self._bus.get(self._key)
                owner = _owner(entry)
                if owner is None or owner.owner != self._owner:
                    why = "its lease was given up" if owner is None else self._refusal(owner)
                    raise TrainerBusyError(why) from None
                self._revision = entry.revision if entry is not None else 0  # the last heartbeat was stored after all
            except BusError as error:
                log.warning("trainer.beat_failed", agent_id=self._agent, error=str(error))

    async def leave(self) -> None:
        """Give the lease up. A second call does nothing."""
        with suppress(BusError):
            entry = await self._bus.get(self._key)
            owner = _owner(entry)
            if entry is not None and owner is not None and owner.owner == self._owner:
                await self._bus.put(self._key, CLEARED, revision=entry.revision)

    async def _beat(self, revision: int) -> None:
        record = LeaseRecord(host=socket.gethostname(), pid=os.getpid(), owner=self._owner, beat=uuid4().hex)
        self._revision = await self._bus.put(self._key, record.encode(), revision=revision)

    def _refusal(self, owner: LeaseRecord) -> str:
        return (
            f"another trainer has the lineage of {self._agent} (host {owner.host}, process {owner.pid}): wait for it, "
            "or end its round with conch train stop"
        )


async def under_lease(
    bus: Bus, agent: str, work: Callable[[], Coroutine[Any, Any, T]], *, patience: float = LEASE_SECONDS
) -> T:
    """Do `work` with the lease of an agent's lineage. Where another trainer takes over, the work is cancelled.

    Raises TrainerBusyError then, and where another trainer has the lease.
    """
    lease = LineageLease(bus, agent)
    await lease.take(patience)
    try:
        async with OwnedTasks() as tasks:
            keeping = tasks.start(lease.keep(), name=f"conch.lease.{agent}")
            working = tasks.start(work(), name=f"conch.trainer.{agent}")
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await cancel_and_wait(working)
                await keeping
            return await working
    finally:
        await lease.leave()


def _owner(entry: KeyValue | None) -> LeaseRecord | None:
    if entry is None or not entry.value:
        return None
    with suppress(ContractError):
        return LeaseRecord.decode(entry.value)
    return None


def _is_gone(owner: LeaseRecord) -> bool:
    """Whether its process was on this machine, and is not any more."""
    return owner.host == socket.gethostname() and not psutil.pid_exists(owner.pid)

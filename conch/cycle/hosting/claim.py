"""The exclusive claim of a run on its agents, on a bus that other runs reach too.

A run writes a heartbeat with the names of its agents into the checkpoint bucket, then reads those of all other runs.
Revisions of the bucket are in one order: of two runs that claim one agent, the one whose first heartbeat has the higher
revision reads the other's, and is refused while that run is alive. A run is dead when its heartbeat has not changed for
LEASE_SECONDS, by the reader's own clock. A run that was taken for dead, and is not, reads that its heartbeat was
removed, and claims again.

A claim keeps a mistake from beginning. That two copies of an agent never act twice does not rest on it: see `host`.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from conch.bus import CLEARED, Bus, KeyValue, RunRecord, is_run, run_key
from conch.errors import AgentsBusyError, BusError, ContractError, FencedError
from conch.log import get_logger

log = get_logger(__name__)

BEAT_SECONDS: Final = 1.0
"""Seconds between two heartbeats."""
LEASE_SECONDS: Final = 5.0
"""A run without a heartbeat for this long is taken for dead, as a worker of a consumer is."""
_NUMBERED = re.compile(r"(.+)-([1-9]\d{0,8})", re.ASCII)
_SPAN = re.compile(r"(.+)-([1-9]\d{0,8})\.\.([1-9]\d{0,8})", re.ASCII)


class AgentsClaim:
    """The claim of one run. Made by `claimed`."""

    def __init__(self, bus: Bus, home: Path, agents: Sequence[str]) -> None:
        self._bus = bus
        self._names, self._spans = tuple(agents), spans(agents)
        self._host, self._home = socket.gethostname(), str(home)
        run = uuid.uuid5(uuid.NAMESPACE_URL, f"{self._host}{home.resolve()}")
        self._key = run_key(run.hex)
        """The same for each run of this home: what one left that was killed is replaced at once."""
        self._revision = 0
        self._since: int | None = None
        self._value = CLEARED
        """The last value that was written, or was being written."""

    async def take(self) -> None:
        """Claim the agents. Raises AgentsBusyError where another run has one of them."""
        entry = await self._bus.get(self._key)
        self._revision, self._since = entry.revision if entry is not None else 0, None
        await self._beat()
        self._since = self._revision
        heard: dict[str, tuple[int, float]] = {}
        while before := await self._claimed_before():
            now = time.monotonic()
            for key, (entry, record) in before.items():
                revision, at = heard.setdefault(key, (entry.revision, now))
                if revision != entry.revision:
                    await self.leave()
                    raise AgentsBusyError(self._refusal(record))
                if now - at > LEASE_SECONDS:
                    log.warning("run.gone", host=record.host, home=record.home, silent_seconds=LEASE_SECONDS)
                    with suppress(FencedError):  # it is back
                        await self._bus.put(key, CLEARED, revision=entry.revision)
            await asyncio.sleep(BEAT_SECONDS / 2)
            await self._beat()

    async def keep(self) -> None:
        """Write heartbeats; never returns. Raises AgentsBusyError where another run has taken over."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self._beat()
            except FencedError:
                log.warning("run.overtaken", agents=self._spans)
                await self.take()
            except BusError as error:
                log.warning("run.beat_failed", error=str(error))

    async def leave(self) -> None:
        """Give the agents free at once."""
        for _ in range(2):  # the last heartbeat may have been cancelled: then it is stored or not
            try:
                await self._bus.put(self._key, CLEARED, revision=self._revision)
            except FencedError:
                entry = await self._bus.get(self._key)
                if entry is None or entry.value != self._value:
                    return
                self._revision = entry.revision
            else:
                return

    async def _beat(self) -> None:
        """Write a heartbeat. Raises FencedError where the last one was removed or replaced by another run."""
        before, self._value = self._value, self._record().encode()
        try:
            self._revision = await self._bus.put(self._key, self._value, revision=self._revision)
        except FencedError:
            entry = await self._bus.get(self._key)
            if entry is None or entry.value not in (before, self._value) or not entry.value:
                raise
            self._revision = await self._bus.put(self._key, self._value, revision=entry.revision)

    def _record(self) -> RunRecord:
        beat = str(uuid.uuid4())
        return RunRecord(
            agents=self._spans, host=self._host, pid=os.getpid(), home=self._home, since=self._since, beat=beat
        )

    async def _claimed_before(self) -> dict[str, tuple[KeyValue, RunRecord]]:
        """The runs that claimed one of these agents before this one, by key."""
        assert self._since is not None
        found = {}
        for key in await self._bus.keys():
            entry = await self._bus.get(key) if is_run(key) and key != self._key else None
            if entry is None or (record := _decoded(entry.value)) is None:
                continue
            if (record.since or entry.revision) < self._since and shared(record.agents, self._names):
                found[key] = entry, record
        return found

    def _refusal(self, record: RunRecord) -> str:
        both = ", ".join(spans(shared(record.agents, self._names)))
        return (
            f"another run on this bus has {both} (host {record.host}, process {record.pid}, home {record.home}): "
            "name other agents (--agents), or stop that run"
        )


@asynccontextmanager
async def claimed(bus: Bus, home: Path, agents: Sequence[str]) -> AsyncIterator[AgentsClaim]:
    """The claim of a run of `home` on these agents, for its `keep` to be run while entered; left, they are free.

    Raises AgentsBusyError where another run has one of them; that takes at most LEASE_SECONDS and two heartbeats.
    """
    claim = AgentsClaim(bus, home, agents)
    await claim.take()
    try:
        yield claim
    finally:
        if bus.connected:
            await claim.leave()


def spans(agents: Iterable[str]) -> tuple[str, ...]:
    """The names, with successive numbers as one span.

    >>> spans(["echo", "echo-9", "echo-10", "echo-11"])
    ('echo', 'echo-9..11')
    """
    found: list[tuple[str, int, int] | str] = []
    for name in agents:
        if (numbered := _NUMBERED.fullmatch(name)) is None:
            found.append(name)
            continue
        stem, number = numbered[1], int(numbered[2])
        last = found[-1] if found else ""
        if not isinstance(last, str) and last[0] == stem and last[2] == number - 1:
            found[-1] = stem, last[1], number
        else:
            found.append((stem, number, number))
    return tuple(one if isinstance(one, str) else _shown(*one) for one in found)


def shared(claimed: Sequence[str], agents: Sequence[str]) -> list[str]:
    """Those of `agents` that are among the names and spans `claimed`.

    >>> shared(["echo", "echo-9..11"], ["echo-8", "echo-9", "echo-10"])
    ['echo-9', 'echo-10']
    """
    alone = frozenset(claimed)
    wide = [(found[1], int(found[2]), int(found[3])) for one in claimed if (found := _SPAN.fullmatch(one))]

    def is_claimed(name: str) -> bool:
        if name in alone:
            return True
        found = _NUMBERED.fullmatch(name)
        return found is not None and any(found[1] == stem and a <= int(found[2]) <= b for stem, a, b in wide)

    return [name for name in agents if is_claimed(name)]


def _shown(stem: str, first: int, last: int) -> str:
    return f"{stem}-{first}" if first == last else f"{stem}-{first}..{last}"


def _decoded(value: bytes) -> RunRecord | None:
    """The heartbeat; None for one that was removed, or that this version cannot read: the agents' fences hold then."""
    try:
        return RunRecord.decode(value) if value else None
    except ContractError:
        return None

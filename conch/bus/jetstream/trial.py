"""Benchmark of a bus: publishes and reads test events on a stream of its own, which is deleted afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from conch.bus.jetstream.connection import Connection
from conch.bus.jetstream.publisher import Publisher
from conch.bus.jetstream.reader import PullReader
from conch.bus.protocol import OutgoingMessage
from conch.errors import BusError

PREFIX = "CONCH_TRIAL_"
SINGLY = 300
"""Most events published one at a time: each waits for the one before."""
WAITING = 1000
"""Events per call where many are in flight."""
SYNCS = 50
LEFT_FOR = timedelta(hours=1)
"""Age from which a trial stream counts as left behind by a killed run, and is deleted."""


@dataclass(frozen=True)
class BenchmarkFigure:
    """Events and seconds of one way to use the bus."""

    what: str
    events: int
    seconds: float
    """For all events."""

    @property
    def rate(self) -> float:
        """Events in a second."""
        return self.events / self.seconds

    @property
    def each(self) -> float:
        """Mean seconds per event."""
        return self.seconds / self.events


async def measure(
    connection: Connection, *, events: int, size: int, strict: bool, replicas: int
) -> list[BenchmarkFigure]:
    """Publish one at a time, publish many at once, and read them: all acknowledged and counted.

    Raises BusError when the bus refuses, or returns another number of events than was published.
    """
    async with _stream(connection, events * (size + 512) * 2, strict=strict, replicas=replicas) as (stream, subject):
        publisher = Publisher(connection, stream, group=strict, find=_nowhere, last=_beyond)
        publisher.start()
        try:
            data = os.urandom(size)
            singly = [OutgoingMessage(subject, data, f"s{number}") for number in range(min(events, SINGLY))]
            many = [OutgoingMessage(subject, data, f"m{number}") for number in range(events)]
            await publisher.publish([OutgoingMessage(subject, data, "first")])  # the first one pays for cold caches
            figures = [
                await _timed("publish one at a time", singly, publisher, 1),
                await _timed("publish many at once", many, publisher, WAITING),
            ]
        finally:
            publisher.close()
        return [*figures, await _read(connection, stream, subject, 1 + len(singly) + len(many))]


async def _beyond() -> int:
    """This stream has no other client: it loses nothing."""
    return sys.maxsize


async def _timed(what: str, messages: Sequence[OutgoingMessage], publisher: Publisher, at_once: int) -> BenchmarkFigure:
    began = time.perf_counter()
    for start in range(0, len(messages), at_once):
        await publisher.publish(messages[start : start + at_once])
    return BenchmarkFigure(what, len(messages), time.perf_counter() - began)


async def _read(connection: Connection, stream: str, subject: str, there: int) -> BenchmarkFigure:
    found, began = 0, time.perf_counter()
    async with PullReader(connection, stream, [subject], 0, ends=True) as reader:
        while deliveries := await reader.get():
            found += len(deliveries)
    if found != there:
        raise BusError(f"the bus brought back {found} of {there} events")
    return BenchmarkFigure("read", found, time.perf_counter() - began)


async def _nowhere(_subjects: set[str], _ids: set[str], _after: int) -> dict[str, int]:
    return {}


@asynccontextmanager
async def _stream(connection: Connection, room: int, *, strict: bool, replicas: int) -> AsyncIterator[tuple[str, str]]:
    """(name, subject) of a temporary stream, deleted on leaving; streams that killed runs left are deleted as well."""
    await _remove_old(connection)
    token = secrets.token_hex(4)
    name, subject = f"{PREFIX}{token}", f"conch-trial.{token}"
    config = {"name": name, "subjects": [subject], "storage": "file", "retention": "limits", "discard": "new"}
    atomic = {"allow_atomic": True} if strict else {}
    await connection.api(f"STREAM.CREATE.{name}", config | {"max_bytes": room, "num_replicas": replicas} | atomic)
    try:
        yield name, subject
    finally:
        await connection.api(f"STREAM.DELETE.{name}")


async def _remove_old(connection: Connection) -> None:
    found = await connection.api("STREAM.LIST", {"subject": "conch-trial.>"})
    for info in found.get("streams") or ():
        made = datetime.fromisoformat(info["created"][:19] + "+00:00")
        if info["config"]["name"].startswith(PREFIX) and datetime.now(UTC) - made > LEFT_FOR:
            await connection.api(f"STREAM.DELETE.{info['config']['name']}")


def fsync_seconds(directory: Path) -> float:
    """Seconds of one write of 4 KiB with fsync on this disk: the median of SYNCS. Raises OSError if it fails."""
    file = directory / f".trial.{os.getpid()}"
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        times = []
        for _ in range(SYNCS):
            began = time.perf_counter()
            os.write(handle, bytes(4096))
            os.fsync(handle)
            times.append(time.perf_counter() - began)
        return statistics.median(times)
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            file.unlink()

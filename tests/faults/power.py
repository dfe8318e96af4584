"""A power cut: the server's store lies on an image of a disk, and the image is copied at the cut. The copy has what was
written through by then and nothing of what the system still held in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from tests.faults.load import message

IMAGE = "96M"
AT_ONCE = 50
"""Events that are on their way together, or in a batch."""


@dataclass(frozen=True)
class Cut:
    """What a power cut left."""

    acknowledged: int
    lost: int
    """Acknowledged and not there afterwards, or not where they stood."""
    doubled: int
    seconds: float
    """Between the acknowledgement of the first that was lost and the cut; 0 when none was."""
    recovery: float
    """From the start of the server on what was left to an event published and read."""


async def singly(bus: Bus, numbers: range) -> list[int]:
    """One after the other."""
    return [(await bus.publish(*message("echo", n)[:2], id=message("echo", n).id)).seq for n in numbers[:1]]


async def pipelined(bus: Bus, numbers: range) -> list[int]:
    """All at once."""
    events = [message("echo", number) for number in numbers]
    return [one.seq for one in await asyncio.gather(*(bus.publish(*event[:2], id=event.id) for event in events))]


async def in_a_batch(bus: Bus, numbers: range) -> list[int]:
    """All in one call."""
    return [one.seq for one in await bus.publish_many([message("echo", number) for number in numbers])]


WAYS: dict[str, Callable[[Bus, range], Awaitable[list[int]]]] = {
    "singly": singly,
    "pipelined": pipelined,
    "in batches": in_a_batch,
}


class NoMountError(Exception):
    """Nothing can be mounted here: not root, or a container that may not."""


async def power_cut(directory: Path, token: str, *, strict: bool, way: str, seconds: float) -> Cut:
    """Publish for so long, then cut the power and look at what is left. Raises NoMountError."""
    disk, left = directory / "disk", directory / "left"
    before, after = directory / "before.img", directory / "after.img"
    for place in (disk, left):
        place.mkdir(parents=True)
    _run("truncate", "-s", IMAGE, str(before))
    _run("mkfs.ext4", "-q", "-F", str(before))
    try:
        _mount(before, disk)
        acknowledged, cut = await _until_the_cut(disk, before, after, token, strict=strict, way=way, seconds=seconds)
        _mount(after, left)
        return await _what_is_left(left, token, acknowledged, cut, strict=strict)
    finally:
        for place in (disk, left):
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


async def _until_the_cut(
    disk: Path, before: Path, after: Path, token: str, *, strict: bool, way: str, seconds: float
) -> tuple[dict[str, tuple[int, float]], float]:
    """Every acknowledged id with its place and when that was, and when the cut was."""
    acknowledged: dict[str, tuple[int, float]] = {}
    server = EmbeddedServer(disk / "nats", token=token, strict=strict, max_bytes=2**26)
    await server.start()
    async with JetStreamBus(Access(server.url, token=token), strict=strict) as bus:
        _run("sync", "-f", str(disk))  # that there is a stream is long known
        number, end = 1, time.monotonic() + seconds
        while time.monotonic() < end:
            places = await WAYS[way](bus, range(number, number + AT_ONCE))
            now = time.monotonic()
            for place in places:
                acknowledged[message("echo", number).id] = (place, now)
                number += 1
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        cut = time.monotonic()
        _run("cp", "--sparse=always", str(before), str(after))
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
    return acknowledged, cut


async def _what_is_left(
    left: Path, token: str, acknowledged: dict[str, tuple[int, float]], cut: float, *, strict: bool
) -> Cut:
    began = time.monotonic()
    server = EmbeddedServer(left / "nats", token=token, strict=strict, max_bytes=2**26)
    await server.start()
    try:
        async with JetStreamBus(Access(server.url, token=token)) as bus:
            probe = message("probe", 1)
            await bus.publish(*probe[:2], id=probe.id)
            recovery = time.monotonic() - began
            there: dict[int, bytes] = {found.seq: found.data async for found in bus.read(["conch.v1.>"])}
    finally:
        await server.stop()
    lost = [when for id, (place, when) in acknowledged.items() if id.encode() not in there.get(place, b"")]
    doubled = len(there) - len(set(there.values()))
    return Cut(len(acknowledged), len(lost), doubled, cut - min(lost) if lost else 0.0, recovery)


def _mount(image: Path, place: Path) -> None:
    command = ["mount", "-o", "loop", str(image), str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        raise NoMountError


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)

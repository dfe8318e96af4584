"""The publisher and the consumers of this folder as processes, to be stopped and killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAST = 10_000_000
"""More than is ever published: the publishers end by being killed."""
START_SECONDS = 30.0


class Publisher:
    """A process of `tests.faults.publisher`, and what it said."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.acknowledged: dict[int, int] = {}
        """Number of a message -> its place."""
        self._reading = asyncio.create_task(self._read(), name="publisher.read")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            number, _, place = line.partition(b" ")
            if place.endswith(b"\n"):
                self.acknowledged[int(number)] = int(place)

    async def ended(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End it; all that it said is here. Twice is once."""
        if self.process.returncode is None:
            self.process.send_signal(by)
        await self.process.wait()
        await self._reading


async def publisher(url: str, token: str, first: int) -> Publisher:
    """One that publishes message `first`, and on."""
    return Publisher(await _start("publisher", url, token, str(first), str(LAST)))


async def consumers(url: str, token: str, home: Path, *names: str) -> Process:
    """These consumers (see `tests.faults.consumers`) in a process, once they are at work."""
    process = await _start("consumers", url, token, str(home), *names)
    assert process.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        said = await process.stdout.readline()
    assert said == b"ready\n", said
    return process


async def worker(url: str, token: str, home: Path, fold: str, name: str) -> Process:
    """A worker of a fold (see `tests.faults.workers`)."""
    return await _start("workers", url, token, str(home), fold, name)


async def _start(module: str, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.faults.{module}", *arguments, cwd=ROOT, stdout=PIPE
    )

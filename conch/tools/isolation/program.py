"""A program that runs: watched until it ends or reaches a limit, then gone with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from conch.tools.isolation.cgroup import ControlGroup
from conch.tools.isolation.pipes import Pipe
from conch.tools.isolation.processes import ProcessFamily, kernel_memory_of, memory_of

WATCH_SECONDS = 0.02
"""Least time from one look at the processes to the next; looking takes at most a tenth of the time."""

DEATH_SECONDS = 5.0
"""Longest wait for killed processes to be gone."""

NICE = 10
"""How much programs stand back behind the agent when the processors are busy."""

OWN_PROCESSES = 2
"""Bubblewrap itself and the first process of its namespace."""

Excess = tuple[Literal["error", "timeout"], str]
"""A limit that was reached, and the sentence about it."""


@dataclass(frozen=True)
class ProgramLimits:
    """What a program may take."""

    processes: int
    memory_mib: int
    output_kib: int


class RunningProgram:
    """A process in a session of its own, what it writes, and what bubblewrap reports of itself.

    Made and used inside a running event loop. Whoever makes one awaits `wait`, which leaves nothing running.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], output: Pipe, status: Pipe, group: ControlGroup, limits: ProgramLimits
    ) -> None:
        self.process = process
        self.report: dict[str, int] = {}
        """`child-pid`, the first process of the sandbox, and `exit-code`; whole after `wait`."""
        self._output, self._status = output, status
        self._group, self._limits = group, limits
        self._content = bytearray()
        self._news = asyncio.Event()
        self._tasks_before = _tasks()
        self._too_much_memory = f"the program took more than {limits.memory_mib} MiB of memory and was ended"
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)

    async def wait(self, timeout: float) -> Excess | None:
        """Wait for the end, or for a limit (which it returns), and see to it that nothing is left.

        Cancelled, it ends the program and everything of it before it raises.
        """
        try:
            with _reading(self._output.read, self._take):
                return await self._watch(timeout)
        finally:
            self._signal(signal.SIGKILL)
            await _died(self.process.pid)
            self.process.wait()
            self.report = _report(self._status.read)
            await _died(self.report.get("child-pid"))
            await self._emptied()

    def output(self) -> str:
        """What was written, up to the limit; writers that live on are not waited for."""
        while not self._flooded() and self._take():
            pass
        return bytes(self._content[: self._limits.output_kib * 1024]).decode(errors="replace")

    async def _watch(self, timeout: float) -> Excess | None:
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + timeout, WATCH_SECONDS
        with _watching(self.process.pid, self._news.set):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, max(0.0, deadline - clock()))):
                        await self._news.wait()
                self._news.clear()
                if self._flooded():
                    return "error", f"the program wrote more than {self._limits.output_kib} KiB and was ended"
                if self.process.poll() is not None:
                    return ("error", self._too_much_memory) if self._starved() else None
                if clock() >= deadline:
                    return "timeout", f"the program took longer than {timeout:g} seconds and was ended"
                began = clock()
                if (excess := self._excess()) is not None:
                    return "error", excess
                pause = max(WATCH_SECONDS, 9 * (clock() - began))

    def _excess(self) -> str | None:
        members, refused = self._members()
        if refused or len(members) > self._limits.processes + OWN_PROCESSES:
            return f"the program had more than {self._limits.processes} processes and was ended"
        if self._starved() or memory_of(members) + kernel_memory_of(members) > self._limits.memory_mib * 2**20:
            return self._too_much_memory
        return None

    def _starved(self) -> bool:
        with contextlib.suppress(OSError):
            return self._group.starved()
        return False

    def _members(self) -> tuple[frozenset[int], bool]:
        """The processes, and whether the kernel refused one more."""
        with contextlib.suppress(OSError):
            if (members := self._group.members()) is not None:
                return members, self._group.refused()
        if _tasks() - self._tasks_before <= self._limits.processes:
            return ProcessFamily.of(self.process.pid).members, False
        # Somebody makes many processes. If it is this program, it would make more than can be counted: halt it first.
        self._signal(signal.SIGSTOP)
        family = ProcessFamily.of(self.process.pid)
        if len(family.members) <= self._limits.processes + OWN_PROCESSES:
            self._signal(signal.SIGCONT)
        return family.members, False

    async def _emptied(self) -> None:
        """End what left the session, where there is a group to tell; a program in bubblewrap leaves nothing."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(DEATH_SECONDS):
                while left := self._group.members():
                    for pid in left:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    await asyncio.sleep(0.005)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _flooded(self) -> bool:
        return len(self._content) > self._limits.output_kib * 1024

    def _take(self) -> bool:
        """Read some of what was written; False when there is none."""
        try:
            some = os.read(self._output.read, 65536)
        except BlockingIOError:
            return False
        self._content += some
        if not some or self._flooded():
            asyncio.get_running_loop().remove_reader(self._output.read)
            self._news.set()
        return bool(some)


@contextlib.contextmanager
def _reading(descriptor: int, take: Callable[[], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, take)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


@contextlib.contextmanager
def _watching(pid: int, died: Callable[[], object]) -> Iterator[bool]:
    """Call `died` when the process has; yields False where that cannot be told (it is gone, or this is no Linux)."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        yield False
        return
    try:
        with _reading(descriptor, died):
            yield True
    finally:
        os.close(descriptor)


async def _died(pid: int | None) -> None:
    """Wait until a process has died. The first one of a namespace does so after every other in it."""
    died = asyncio.Event()
    if pid is not None:
        with _watching(pid, died.set) as told, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEATH_SECONDS if told else 0):
                await died.wait()


def _tasks() -> int:
    """How many tasks the machine has: one read, however many there are; 0 where the system does not say."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    except OSError:
        return 0


def _report(descriptor: int) -> dict[str, int]:
    try:
        lines = os.read(descriptor, 65536).decode().splitlines()
    except BlockingIOError:
        return {}
    found: dict[str, int] = {}
    for line in lines:
        with contextlib.suppress(ValueError):  # cut off by the kill
            found |= {name: value for name, value in json.loads(line).items() if isinstance(value, int)}
    return found

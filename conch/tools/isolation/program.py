"""A running program: watched until it ends or reaches a limit, then killed with all its descendants."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from conch.tools.isolation.cgroup import ControlGroup
from conch.tools.isolation.kernel import read_kernel
from conch.tools.isolation.output import ProgramOutput
from conch.tools.isolation.pipes import Pipe
from conch.tools.isolation.processes import ProcessFamily, kernel_memory_of, memory_of

WATCH_SECONDS = 0.02
"""Least seconds between two looks at the processes; looking takes at most a tenth of the time."""

DEATH_SECONDS = 5.0
"""Most seconds to wait for killed processes to be gone."""

NICE = 10
"""Niceness of programs, so that the agent goes first when the processors are busy."""

OWN_PROCESSES = 2
"""Processes of the sandbox itself: bubblewrap and the first process of its namespace."""

Excess = tuple[Literal["error", "timeout"], str]
"""A limit that was reached: the status and the sentence about it."""


@dataclass(frozen=True)
class ProgramLimits:
    """Resource limits of a program."""

    processes: int
    memory_mib: int


class RunningProgram:
    """A process in a session of its own, its output, and bubblewrap's status reports.

    Made and used inside a running event loop. The caller awaits `wait`, which leaves no process running.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        output: Pipe,
        status: Pipe,
        group: ControlGroup,
        limits: ProgramLimits,
        content: ProgramOutput,
    ) -> None:
        """`content` takes what it writes."""
        self.process = process
        self.report: dict[str, int] = {}
        """`child-pid`, the first process of the sandbox, and `exit-code`; complete after `wait`."""
        self._output, self._status = output, status
        self._group, self._limits = group, limits
        self._content = content
        self._news = asyncio.Event()
        self._tasks_before = _tasks()
        self._too_much_memory = f"the program took more than {limits.memory_mib} MiB of memory and was ended"
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)

    async def wait(self, timeout: float) -> Excess | None:
        """Wait for the end, or for a limit (which it returns), and make sure that no process is left.

        Cancelled, it kills the program and all its descendants before it raises.
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
        """The output, up to the limit; processes that still write are not waited for."""
        while self._content.excess is None and self._take():
            pass
        return self._content.text()

    async def _watch(self, timeout: float) -> Excess | None:
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + timeout, WATCH_SECONDS
        with _watching(self.process.pid, self._news.set):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, max(0.0, deadline - clock()))):
                        await self._news.wait()
                self._news.clear()
                if (written := self._content.excess) is not None:
                    return "error", f"the program {written} and was ended"
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
        """The processes, and whether the kernel denied a further one."""
        with contextlib.suppress(OSError):
            if (members := self._group.members()) is not None:
                return members, self._group.refused()
        if _tasks() - self._tasks_before <= self._limits.processes:
            return ProcessFamily.of(self.process.pid).members, False
        # Many processes are being made. If by this program, it could make them faster than they are counted: stop it
        # first.
        self._signal(signal.SIGSTOP)
        family = ProcessFamily.of(self.process.pid)
        if len(family.members) <= self._limits.processes + OWN_PROCESSES:
            self._signal(signal.SIGCONT)
        return family.members, False

    async def _emptied(self) -> None:
        """Kill processes that left the session, if there is a control group; a program in bubblewrap leaves none.
        Without either, wait for those of the session: they are killed, and may take a moment to die."""
        if "child-pid" not in self.report and self._group.members() is None:
            for pid in ProcessFamily.of(self.process.pid).members:
                await _died(pid)
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

    def _take(self) -> bool:
        """Read some output; False when there is none."""
        try:
            some = os.read(self._output.read, 65536)
        except BlockingIOError:
            return False
        self._content.add(some)
        if not some or self._content.excess is not None:
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
    """Call `died` when the process has died; yields False if that is not observable (it is gone, or not Linux)."""
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
    """Wait until a process has died. The first one of a namespace dies after all others in it."""
    died = asyncio.Event()
    if pid is not None:
        with _watching(pid, died.set) as told, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEATH_SECONDS if told else 0):
                await died.wait()


def _tasks() -> int:
    """Number of tasks on the machine, in one read at any number; 0 where the system does not report it."""
    try:
        return int(read_kernel("/proc/loadavg").split()[3].split(b"/")[1])
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

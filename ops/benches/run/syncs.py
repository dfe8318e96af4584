"""How often processes call fsync and fdatasync: counted by the kernel, through `perf`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

EVENTS = "syscalls:sys_enter_fsync,syscalls:sys_enter_fdatasync"


class Counter:
    """`perf stat` on one process, told over pipes when to count: it needs some time to attach."""

    def __init__(self, perf: str, pid: int, file: Path, open_until: ExitStack) -> None:
        self._file = file
        told, self._commands = os.pipe()
        self._answers, answering = os.pipe()
        for end in (self._commands, self._answers):
            open_until.callback(os.close, end)
        command = [perf, "stat", "-x", ",", "-e", EVENTS, "-p", str(pid), "-o", str(file)]
        command += ["-D", "-1", "--control", f"fd:{told},{answering}"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, pass_fds=(told, answering))
        open_until.callback(self._process.wait)
        open_until.callback(self._process.kill)
        for end in (told, answering):
            os.close(end)

    def tell(self, command: str) -> None:
        """`enable` or `disable`; returns when it is done, or at once where `perf` has ended."""
        try:
            os.write(self._commands, f"{command}\n".encode())
        except BrokenPipeError:
            return
        os.read(self._answers, 64)

    def calls(self) -> int | None:
        """End it. What it counted; None where the kernel lets this user count no system calls."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        counts = [line.split(",")[0] for line in lines if "sys_enter" in line]
        return sum(map(int, counts)) if counts and all(map(str.isdigit, counts)) else None


@contextmanager
def counted(pids: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Calls by process from now to the end of the context, filled in at its end; empty where there is no `perf`, or
    where the kernel lets this user count no system calls."""
    calls: dict[str, int] = {}
    if (perf := shutil.which("perf")) is None:
        yield calls
        return
    with tempfile.TemporaryDirectory() as directory, ExitStack() as open_until:
        counters = {name: Counter(perf, pid, Path(directory, name), open_until) for name, pid in pids.items()}
        for counter in counters.values():
            counter.tell("enable")
        yield calls
        for counter in counters.values():
            counter.tell("disable")
        found = {name: counter.calls() for name, counter in counters.items()}
        calls |= {name: count for name, count in found.items() if count is not None}

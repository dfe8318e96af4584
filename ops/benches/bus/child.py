"""A mode in a process of its own: started, ready, ended by the end of its input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

from conch.bus.server import die_with_parent
from conch.processes.messages import StopCommand

BENCHES = Path(__file__).resolve().parent.parent


class Child:
    """A process that was started by `started`."""

    def __init__(self, process: subprocess.Popen[str], complaints: BinaryIO) -> None:
        self.process, self.pid, self._complaints = process, process.pid, complaints
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._draining = Thread(target=self._drain, daemon=True)
        self._draining.start()

    def _drain(self) -> None:
        """Take every line as it comes: a process whose output nobody reads stands still once the pipe is full."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def drained(self) -> None:
        """Wait until its output has ended."""
        self._draining.join()

    def heard(self) -> str:
        """Its next line; ends the bench where it has none."""
        line = self._lines.get()
        if not line:
            self.process.wait()
            self.check()
        return line.rstrip("\n")

    def check(self) -> None:
        """End the bench where it has ended, with what it said."""
        if (status := self.process.poll()) is not None:
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace")[-3000:]
            raise SystemExit(f"{' '.join(map(str, self.process.args))} ended with {status}:\n{said}")

    def tell(self, line: str) -> None:
        """A line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@contextmanager
def started(module: str, *arguments: str, spec: str = "", seconds: float = 30.0) -> Iterator[Child]:
    """`python -m MODULE ARGUMENTS`, here once it has said `ready`. Left, its input ends, and so must it.

    With a `spec` it is one of Conch's own processes: told that line first, and to stop at the end.
    """
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=BENCHES,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
        child = Child(process, complaints)
        try:
            if spec:
                child.tell(spec)
            elif (line := child.heard()) != "ready":
                raise SystemExit(f"{module} {' '.join(arguments)} said {line!r} instead of ready")
            yield child
            if spec:
                child.tell(StopCommand().encode().decode().rstrip())
                if process.wait(seconds):
                    child.check()
        finally:
            process.stdin.close()
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise SystemExit(f"{module} {' '.join(arguments)} did not end within {seconds:g} s") from None
            finally:
                child.drained()
                process.stdout.close()

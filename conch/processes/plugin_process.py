"""A process of its own for code of a plug-in: a rule, the tools of a file, an MCP server.

It has its own namespace of processes where there can be one, ends with this process, and has neither the settings nor
variables that look like secrets. It is told lines on stdin and answers lines on stdout; what its code prints goes to
stderr, and its first pieces to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import psutil

from conch.bus import die_with_parent
from conch.processes.namespace import exit_status, own_namespace
from conch.python_child import DIRECTORY, ONE_THREAD, environment
from conch.tasks import OwnedTasks
from conch.text import safe_text

LINE_LIMIT = 1024 * 1024
"""Bytes of an answer: a rule's state of 256 KiB with its quotes escaped has room."""
DRAIN_BYTES, DRAIN_SECONDS = 64 * 1024, 0.05
"""Bytes of a process's output read at a time, and seconds between two reads: one that prints more waits, and only
it."""
PRINTED = 500
"""Characters of a piece of what it prints that are logged."""
LAST = 300
"""Characters of its last line that are kept."""
LAST_SECONDS = 0.5
"""Seconds that what it printed may take to arrive after its end: another process may hold its stderr open."""
HEARD = 50
"""Pieces of what a process prints that are logged; the rest is not."""
_TAIL_BYTES = 8 * 1024
"""Bytes of what it printed last that are kept, for its last line."""
ROUNDS = 3
"""Rounds of ending processes: one that forks during a round leaves a child for the next."""
_MARK = "RULE_PROCESS_OF_CONCH"
"""Variable by which what such a process started is known, wherever it went; `CONCH_…` would be a setting."""


class WorkerGoneError(Exception):
    """The process cannot be used any more; the message says why."""


class PluginProcess:
    """One such process. Made by `start`; the caller of that closes it."""

    def __init__(self, process: asyncio.subprocess.Process, what: str, mark: str, *, is_alone: bool) -> None:
        self._process, self._what, self._mark, self._is_alone = process, what, mark, is_alone
        self._hearing = OwnedTasks()
        self._tail, self._heard_all = b"", asyncio.Event()
        """The end of what it has printed; set when it can print no more."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        what: str,
        printed: Callable[[str], None],
        *,
        variables: Mapping[str, str] = MappingProxyType({}),
        line_limit: int = LINE_LIMIT,
    ) -> PluginProcess:
        """Start the command. `what` it runs, for the reason of its end; `printed` gets what it prints; `variables`: of
        its environment, beside those of a plug-in.

        Raises OSError where no process can be started.
        """
        mark, walls = uuid.uuid4().hex, await asyncio.to_thread(own_namespace)
        process = await asyncio.create_subprocess_exec(
            *(walls or ()),
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # numpy reserves memory for a thread per processor: on a large machine more than a rule's limit.
            # What is printed is read as UTF-8 here, whatever the encoding of the run's own streams is.
            env={**environment(), **ONE_THREAD, "PYTHONIOENCODING": "utf-8:replace", **variables, _MARK: mark},
            cwd=DIRECTORY,
            start_new_session=True,
            limit=line_limit,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )
        made = cls(process, what, mark, is_alone=walls is not None)
        assert process.stderr is not None
        made._hearing.start(made._hear(process.stderr, printed), name="conch.plugin.hear")
        return made

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status; None: it runs."""
        return self._process.returncode

    def write(self, lines: bytes) -> None:
        """Tell it something, without waiting until it reads."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended: reading from it raises the reason
            self._process.stdin.write(lines)

    async def tell(self, lines: bytes) -> None:
        """Tell it something; waits while it does not read."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(lines)
            await self._process.stdin.drain()

    async def line(self) -> bytes:
        """Its next line. Raises WorkerGoneError when it has ended, ValueError for a line beyond the limit."""
        assert self._process.stdout is not None
        if line := await self._process.stdout.readline():
            return line
        status = exit_status(await self._process.wait())
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        raise WorkerGoneError(f"{self._what} ended its process ({how})")

    async def heard_all(self) -> None:
        """Wait until it can print no more, at most LAST_SECONDS."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard_all.wait(), LAST_SECONDS)

    def last_words(self) -> str:
        """`, its last line: …`: the last line that it has printed, as safe text; empty: it has printed none."""
        lines = (safe_text(line, one_line=True).strip() for line in self._tail.decode(errors="replace").splitlines())
        last = next((line for line in reversed(list(lines)) if line), "")
        return f", its last line: {last[:LAST]}" if last else ""

    async def _hear(self, stream: asyncio.StreamReader, printed: Callable[[str], None]) -> None:
        """Pass on the first of what it prints, and let the rest go but its end, no faster than at a walk."""
        heard = 0
        while piece := await stream.read(DRAIN_BYTES):
            self._tail = (self._tail + piece)[-_TAIL_BYTES:]
            if heard < HEARD:
                heard += 1
                printed(safe_text(piece.decode(errors="replace"))[:PRINTED])
            await asyncio.sleep(DRAIN_SECONDS)
        self._heard_all.set()

    async def close(self) -> None:
        """End it and all that it started. A second call does nothing more."""
        self._hearing.cancel()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if not self._is_alone:
            await asyncio.to_thread(_end_marked, self._mark)
        for number in range(3):
            if (pipe := self._process._transport.get_pipe_transport(number)) is not None:  # type: ignore[attr-defined]
                pipe.close()  # where another process still has it open, no EOF comes
        await self._process.wait()


def _end_marked(mark: str) -> None:
    """End the processes that a plug-in's process started, in any session, and those left behind, where it has no
    namespace of its own. A process that has emptied its environment is not found."""
    for _ in range(ROUNDS):
        processes = psutil.process_iter(["environ"])  # None: it has ended, or is not ours
        found = [one for one in processes if (one.info["environ"] or {}).get(_MARK) == mark]
        for one in found:
            with contextlib.suppress(psutil.Error):
                one.kill()
        if not found:
            return

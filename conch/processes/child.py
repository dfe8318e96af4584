"""The child's side of a supervised process: commands on stdin, reports on stdout; it ends when its parent does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import select
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, BinaryIO, Generic, TypeVar

from conch.config import Masker
from conch.errors import ConchError, ContractError
from conch.log import get_logger
from conch.processes import messages
from conch.processes.line import PipeMessage, decode_line, kind_of
from conch.tasks import background, innermost
from conch.telemetry import configure
from conch.text import safe_text

log = get_logger(__name__)

FATAL_REPORTED = 70
"""Exit status of a child that has reported why it cannot go on."""
HEARTBEAT_SECONDS = 2.0
"""Seconds between two heartbeats, by which the supervisor knows that the event loop of a child runs."""
BUS_SECONDS = 600.0
"""Time that a child waits for the bus as it starts. The supervisor checks the bus itself: it reports that the bus is
away, and ends the run where its own server does not come back."""
ORDER_LIMIT = 64 * 1024 * 1024
"""Bytes of an order: rules come with the text of their files."""
MOST_PRINTED, PRINTED = 50, 500
"""Lines that code of plug-ins prints in one process that are logged, and characters of each; the rest is not."""


StartT = TypeVar("StartT", bound=messages.ChildStart)
CommandT = TypeVar("CommandT", bound=PipeMessage)


class ChildProcessLink(Generic[StartT]):
    """The connection of a child process to its supervisor: the start spec, commands in, reports out."""

    def __init__(self, spec: StartT, reports: BinaryIO, early: bytes = b"") -> None:
        """`reports`: where the supervisor reads; `early`: what came behind the spec already."""
        self.spec, self._reports = spec, reports
        self.settings, self.home, self.access = spec.settings, spec.home, spec.access
        self._handlers: dict[str, Callable[[bytes], None]] = {}
        """Handlers of commands, by the command's kind."""
        self._unread = early
        self._early: dict[str, bytes] = {}
        """Lines of commands that came before there was a handler, the newest of each kind."""

    @property
    def strict(self) -> bool:
        """Whether an acknowledged event must be on disk."""
        return self.settings.bus.durability == "strict"

    def on(self, command: type[CommandT], do: Callable[[CommandT], None]) -> None:
        """Call `do` for each command of this type (of `conch.processes.messages`); at once for one that has come
        already."""
        kind: str = command.model_fields["kind"].default

        def obey(line: bytes) -> None:
            do(decode_line(command, line, f"the command {kind}"))

        self._handlers[kind] = obey
        if (early := self._early.pop(kind, None)) is not None:
            self._obey(early)

    def report(self, report: messages.Report) -> None:
        """Tell the supervisor. Never fails: without a supervisor nothing reads it."""
        write_report(self._reports, report)

    async def beat(self) -> None:
        """Report that the event loop runs; never returns. A supervisor that does not read is not waited for."""
        while True:
            if select.select([], [self._reports], [], 0)[1]:
                self.report(messages.Heartbeat())
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def obey(self) -> None:
        """Execute commands until the supervisor's pipe closes; then this process ends at once, as the supervisor was
        killed."""
        reader = asyncio.StreamReader(limit=ORDER_LIMIT)
        reader.feed_data(self._unread)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._obey(line)
        os._exit(1)

    def _obey(self, line: bytes) -> None:
        """Do what a line commands; one that cannot be read is logged and passed over."""
        try:
            kind = kind_of(line, "a command")
            if (handle := self._handlers.get(kind)) is not None:
                handle(line)
            else:
                self._early[kind] = line
        except ContractError as error:
            log.error("process.command_unreadable", error=str(error))


def write_report(reports: BinaryIO, report: messages.Report) -> None:
    """Write a report to where the supervisor reads it."""
    with contextlib.suppress(OSError):
        reports.write(report.encode())
        reports.flush()


class PrintLog(io.TextIOBase):
    """The stdout of code in a child, whose own stdout is the supervisor's: its first lines are logged."""

    def __init__(self) -> None:
        self._line, self._logged = "", 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Log the lines that this ends."""
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > PRINTED:
            lines.append(self._line)
            self._line = ""
        for line in filter(None, lines[: max(0, MOST_PRINTED - self._logged)]):
            self._logged += 1
            log.info("process.printed", said=safe_text(line)[:PRINTED])
        return len(text)


def _own_stdout() -> BinaryIO:
    """The stdout that this process was started with. What its code prints is logged, what programs print that it starts
    goes to stderr."""
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = PrintLog()
    return reports


def run_child(name: str, start: type[StartT], live: Callable[[ChildProcessLink[StartT]], Awaitable[None]]) -> None:
    """A child's main: read its start spec (one line), live, end. Errors of ours are reported in one sentence."""
    reports = _own_stdout()
    # A pipe's buffered reader would swallow the orders that follow the spec.
    told = b""
    while b"\n" not in told:
        piece = os.read(0, 64 * 1024)
        if not piece:
            return
        told += piece
    line, _, early = told.partition(b"\n")
    try:
        child = ChildProcessLink(decode_line(start, line, f"the start of {name}"), reports, early)
        _collect_seldom()
        process = child.spec.process or name
        mask = Masker.of(child.settings).text
        configure(child.settings.log, child.home / "logs" / f"{process}.log", process=process, mask=mask)
        run_loop(_live(child, live))
        write_report(reports, messages.WorkDone())
    except (ConchError, ExceptionGroup) as raised:
        error = innermost(raised)
        if not isinstance(error, ConchError):
            raise
        write_report(reports, messages.ChildFailed(error=str(error), exit_code=error.exit_code))
        sys.exit(FATAL_REPORTED)


def _collect_seldom() -> None:
    """Make the cyclic garbage collector rare: events are short-lived without cycles, and it took a quarter of the
    time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run`, on uvloop where that is installed (the extra `fast`): a quarter off each event's latency."""
    make: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as make
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main)


async def _live(child: ChildProcessLink[StartT], live: Callable[[ChildProcessLink[StartT]], Awaitable[None]]) -> None:
    async with background(child.obey(), name="conch.orders"), background(child.beat(), name="conch.heartbeat"):
        await live(child)

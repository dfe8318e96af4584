"""The supervisor: starts nats-server, agent, consumers and plug-in consumers side by side, restarts each with back-off
when it dies, and ends them in order.

The agent and the consumers never wait for each other: a process that dies is started again, and what it had not
finished is on the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from conch.bus import Bus, EmbeddedServer, die_with_parent
from conch.errors import BusError, BusUnreachableError, ConchError, ContractError, ServerDiedError
from conch.log import get_logger
from conch.processes import messages
from conch.processes.child import HEARTBEAT_SECONDS
from conch.processes.forked import ForkedProcess
from conch.processes.silence import LOOK_SECONDS, Unresponsiveness, is_stopped
from conch.python_child import DIRECTORY, ONE_THREAD, environment, python_command
from conch.retry import MOST_RESTARTS, PROCESS, Restarts
from conch.tasks import background, cancel_and_wait

log = get_logger(__name__)

SERVER = "nats-server"
"""Name of the embedded server among the processes of a run."""
UNDONE = 1
"""Exit status for a child that ended with status 0 again and again, and never reported that its work is done."""
GRACE_SECONDS = 15.0
"""Time that a process has to end in order; then it is killed."""
SILENT_SECONDS = 10.0
"""Seconds without a heartbeat after which a stopped process is reported; twice that where it is not known to be
stopped."""
BEGIN_SECONDS = 60.0
"""The same before its first heartbeat: it imports."""
NOTICE_SECONDS = 0.5
"""Time in which a server that a client finds gone is found to have died."""
LINE_BYTES = 4 * 1024 * 1024
"""Longest line of a child that is read as a report."""
MOST_UNREADABLE = 20
"""Lines of one process that are no reports and are logged; what a plug-in prints beyond is not."""


@dataclass
class ChildRecord:
    """A child process: its name, state, pid and restarts."""

    name: str
    state: str = "starting"
    """starting, up, failing, silent, restarting, down, ended."""
    restarts: int = 0
    why: str = ""
    pid: int | None = None
    _failing: dict[str, str] = field(default_factory=dict)
    """Why each consumer in it fails that fails at every event."""
    _restarts: Restarts = field(default_factory=lambda: Restarts(PROCESS))

    def died(self, why: str) -> bool:
        """Count a death; whether it may be started again."""
        again = self._restarts.died()
        self._failing.clear()
        self.state, self.why, self.pid = "restarting" if again else "down", why, None
        return again

    def fails(self, consumer: str, why: str) -> None:
        """Record that a consumer in it fails at every event; `why` empty: that it handles events again."""
        self._failing.pop(consumer, None)
        if why:
            self._failing[consumer] = why
        if self.state in ("up", "failing"):
            self.state = "failing" if self._failing else "up"
            self.why = "; ".join(f"{name} fails: {said}" for name, said in self._failing.items())

    def ended(self, why: str | None) -> None:
        """Record that it ended by itself, or reported why it cannot go on."""
        self.state, self.why, self.pid = ("ended", self.why, None) if why is None else ("down", why, None)

    def backoff(self) -> float:
        """Seconds to wait before it is started again."""
        return self._restarts.wait()


class Responsiveness:
    """Whether a process responds: reports when it does not, again whenever that time has doubled, and when it does
    again.

    It is not ended for that: it may be under a debugger. A stopped process is reported at the limit; any other has
    twice as long, since a machine may be too busy for it.
    """

    def __init__(
        self, watched: ChildRecord, limit: float, changed: Callable[[], None], tell: Callable[[str], None]
    ) -> None:
        """`limit`: seconds of silence that are not reported. `tell` takes a sentence for a person."""
        self._watched, self._changed, self._tell = watched, changed, tell
        self._limit, self._silence = limit, Unresponsiveness(limit)
        self._is_told, self._before = False, ("up", "")
        """Whether its silence was reported, and its state and why before."""

    def heard(self, limit: float) -> None:
        """It responds; from now on `limit` seconds of silence are not reported."""
        seconds, self._limit, self._silence = self._silence.seconds, limit, Unresponsiveness(limit)
        if not self._is_told:
            return
        self._is_told = False
        log.info("process.responds", name=self._watched.name, seconds=round(seconds))
        self._tell(f"{self._watched.name} responding again after {seconds:.0f} s")
        if self._watched.state == "silent":
            self._watched.state, self._watched.why = self._before
            self._changed()

    def look(self, elapsed: float) -> None:
        """Add seconds in which nothing was heard of it."""
        if not self._silence.look(elapsed):
            return
        name, pid, seconds = self._watched.name, self._watched.pid, self._silence.seconds
        if is_stopped(pid):
            why = f"stopped (kill -CONT {pid})"
        elif seconds < 2 * self._limit:
            return
        elif self._watched.state == "restarting":
            why = f"it died ({self._watched.why}) and is started again"
        else:
            why = "busy, or without a processor"
        self._is_told = True
        log.error("process.silent", name=name, pid=pid, seconds=round(seconds), why=why)
        self._tell(f"no response from {name} for {seconds:.0f} s: {why}")
        if self._watched.state in ("up", "failing"):
            self._before = self._watched.state, self._watched.why
            self._watched.state = "silent"
        if self._watched.state == "silent":
            since = datetime.now(UTC) - timedelta(seconds=seconds)
            self._watched.why = f"no response since {since:%H:%M:%S} UTC: {why}"
            self._changed()

    async def keep_looking(self) -> None:
        """Count the time; never returns."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            self.look(now - last)
            last = now


class ChildProcess:
    """One Python child process: started, given its spec, listened to, restarted when it dies."""

    def __init__(
        self,
        watched: ChildRecord,
        module: str,
        *,
        hear: Callable[[ChildRecord, messages.Report], None],
        changed: Callable[[], None],
        tell: Callable[[str], None],
        lasts: bool = True,
        nice: int = 0,
        secrets: bool = True,
        first: ForkedProcess | None = None,
    ) -> None:
        """`first`: its first process, where that was forked already. `lasts`: whether it ends only when it is asked to;
        then it is started again also after a normal exit, as by SIGTERM. `nice`: its niceness where the processor is
        scarce (nice(2), 0..19). `secrets`: whether it has variables that look like secrets; no child has those of the
        settings in its `os.environ`, as its spec contains them. `tell` takes a sentence for a person: that it does not
        respond, and that it does again."""
        self.watched = watched
        self._tell = tell
        self._lasts, self._nice, self._secrets = lasts, nice, secrets
        self._module, self._hear, self._changed = module, hear, changed
        self._first = first
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None
        self.fatal: tuple[str, int] | None = None
        """Why it cannot go on, and the run's exit code for that."""
        self._has_spec = self._ending = self._finishing = self._is_done = False

    async def begin(self) -> None:
        """Start it without its spec: it imports meanwhile."""
        if self._first is not None:
            self._process, self._first = self._first, None
            await self._process.connect(LINE_BYTES)
        else:
            self._process = await self._started()
        self.watched.pid, self._has_spec, self._is_done = self._process.pid, False, False

    async def _started(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *python_command(self._module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            preexec_fn=partial(_as_child, self._nice),
            env=ONE_THREAD | environment(secrets=self._secrets),
            cwd=DIRECTORY,
            limit=LINE_BYTES,
        )

    async def live(self, spec: Callable[[], Awaitable[messages.ChildStart]]) -> int:
        """Give it its spec and keep it alive until it ends by itself or cannot go on. Returns 0 where its work is done:
        it must have reported so, as code that it imports may end it with status 0 too.

        Cancelled, it is killed.
        """
        try:
            while True:
                if self._process is None:
                    await self.begin()
                status = await self._once(await spec())
                in_order = status == 0 and self._is_done and (self._finishing or not self._lasts)
                if in_order or self.fatal is not None or self._ending:
                    self.watched.ended(self.fatal[0] if self.fatal is not None else None)
                    self._changed()
                    return status
                how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
                how += ", its work undone" if status == 0 and not self._is_done else ""
                log.error("process.died", name=self.watched.name, how=how, restarts=self.watched.restarts)
                again = self.watched.died(how)
                self._changed()
                if not again:
                    return status or UNDONE
                await asyncio.sleep(self.watched.backoff())
                self.watched.restarts += 1
        finally:
            self.kill()

    async def _once(self, spec: messages.ChildStart) -> int:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        self._has_spec = True
        self._write(spec)
        if self._ending or self._finishing:  # asked for before it could be heard
            self._write(messages.StopCommand() if self._ending else messages.FinishCommand())
        self.watched.state = "up"
        self._changed()
        response = Responsiveness(self.watched, BEGIN_SECONDS, self._changed, self._tell)
        async with background(response.keep_looking(), name=f"{self.watched.name}.response"):
            await self._read(process.stdout, response)
        status = await process.wait()
        self._process = None
        return status

    async def _read(self, stdout: asyncio.StreamReader, response: Responsiveness) -> None:
        """Read its reports until it closes its end. A line that is no report is logged and passed over."""
        unreadable = 0
        while True:
            try:
                if not (line := await stdout.readline()):
                    return
                response.heard(SILENT_SECONDS)
                self._heard(messages.decode_report(line))
            except (ContractError, ValueError) as error:
                unreadable += 1
                if unreadable <= MOST_UNREADABLE:
                    why = str(error) if isinstance(error, ContractError) else f"a line has more than {LINE_BYTES} bytes"
                    log.warning("process.report_unreadable", name=self.watched.name, error=why)

    def _heard(self, report: messages.Report) -> None:
        match report:
            case messages.Heartbeat():
                pass
            case messages.ChildFailed():
                self.fatal = (report.error, report.exit_code)
            case messages.WorkDone():
                self._is_done = True
            case _:
                self._hear(self.watched, report)

    def _write(self, line: messages.ChildStart | messages.Command) -> None:
        """Write a line to it, the start spec before all others; a line to an ended process is dropped."""
        if self._has_spec and self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(line.encode())

    def tell(self, command: messages.Command) -> None:
        """Give it a command. One that is started again learns it from its start spec."""
        self._write(command)

    def finish(self) -> None:
        """Ask it to end once everything is handled; one that dies meanwhile is started again for that."""
        self._finishing = True
        self._write(messages.FinishCommand())

    def end(self) -> None:
        """Ask it to end in order; it is not started again."""
        self._ending = True
        self._write(messages.StopCommand())

    async def gone(self) -> None:
        """End it at once and wait until it is."""
        self.kill()
        if self._process is not None:
            await self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _as_child(nice: int) -> None:
    """Runs between fork and exec. Ctrl-C reaches the whole group: the supervisor passes it on, in order."""
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(signal.SIGKILL)


async def keep_asking(bus: Bus, response: Responsiveness) -> None:
    """Ask the bus for its state at intervals; never returns. An error is a response, too."""
    while True:
        with contextlib.suppress(BusError):
            await bus.state()
        if bus.connected:  # else it was left
            response.heard(SILENT_SECONDS)
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def start_server(server: EmbeddedServer, watched: ChildRecord, changed: Callable[[], None]) -> None:
    """Start the server, again with back-off while it dies as it starts.

    Raises BusUnreachableError when it has died MOST_RESTARTS times, in a minute or in this start, however long that
    took; and at once when it reports why it cannot start.
    """
    tries = 0
    while True:
        tries += 1
        try:
            await server.start()
        except ServerDiedError:
            await _back_off(server, watched, changed, last=tries == MOST_RESTARTS)
        else:
            watched.state, watched.pid = "up", server.pid
            changed()
            return


async def keep_server(server: EmbeddedServer, watched: ChildRecord, changed: Callable[[], None]) -> None:
    """Start the server again whenever it dies. Raises BusUnreachableError when it keeps dying, or reports why it cannot
    start."""
    while True:
        await server.wait()
        await _back_off(server, watched, changed, last=False)
        await start_server(server, watched, changed)


@contextlib.asynccontextmanager
async def served(server: EmbeddedServer, tell: Callable[[str], None] = lambda _: None) -> AsyncIterator[None]:
    """The server, started, and started again where it dies, while entered; at the end it is stopped. `tell` takes a
    sentence for a person on each death after which it is started again.

    Raises BusUnreachableError when it cannot be started, or not again: what is in hand is cancelled then. So it does in
    place of a BusUnreachableError of the body that follows a death.
    """
    own, watched = asyncio.current_task(), ChildRecord(SERVER)
    assert own is not None

    def changed() -> None:
        if watched.state == "restarting":
            tell(f"{_death(watched.why)}; it is started again")

    async def keep() -> None:
        try:
            await keep_server(server, watched, changed)
        except ConchError:
            own.cancel()  # it would wait for the server for ever
            raise

    try:
        await start_server(server, watched, changed)
        async with background(keep(), name=SERVER) as keeping:
            try:
                yield
            except asyncio.CancelledError:
                if keeping.done():
                    own.uncancel()
                    await keeping
                raise
            except BusUnreachableError as error:
                if await _has_died(server, watched):
                    log_file = f"see {server.log_file}, and try again"
                    raise BusUnreachableError(f"{_death(watched.why)}: {log_file}") from error
                raise
    finally:
        await server.stop()


async def _has_died(server: EmbeddedServer, watched: ChildRecord) -> bool:
    """Whether the server has died since it was started; a death that a client saw before its parent counts."""
    if not watched.why and server.pid is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICE_SECONDS):
                await server.wait()
    if not watched.why and server.pid is None:
        watched.why = server.end().why
    return bool(watched.why)


def _death(why: str) -> str:
    return f"the nats-server that this command started died ({why}{_hint(why)})"


def _hint(why: str) -> str:
    return ", which a system short of memory sends, too" if why == "SIGKILL" else ""


async def _back_off(server: EmbeddedServer, watched: ChildRecord, changed: Callable[[], None], *, last: bool) -> None:
    """Count a death of the server and wait before its next start. Raises BusUnreachableError when there is none."""
    end = server.end()
    log.warning("server.died", how=end.why, restarts=watched.restarts)
    again = watched.died(end.why)
    changed()
    if last or not again:
        often = "in a minute" if not again else "as it started"
        raise BusUnreachableError(
            f"the nats-server died {MOST_RESTARTS} times {often} ({end.why}{_hint(end.why)}): see {server.told_in(end)}"
        )
    await asyncio.sleep(watched.backoff())
    watched.restarts += 1


async def ended(tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
    """Wait for tasks to end; after `seconds` cancel them."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            log.warning("process.killed", task=task.get_name())
        await cancel_and_wait(*late)


def first_fatal(children: Sequence[ChildProcess]) -> ConchError | None:
    """The error that a child reported as the end of the run."""
    for child in children:
        if child.fatal is not None:
            error = ConchError(child.fatal[0])
            error.exit_code = child.fatal[1]
            return error
    return None

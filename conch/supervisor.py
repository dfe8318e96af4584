"""The process tree of a run: nats-server, agent, consumers, plug-in consumers; started side by side, watched, restarted
with back-off, ended in order.

The agent and the consumers never wait for each other: whichever dies is started again, and what it had not finished
stands on the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from conch.bus.server import EmbeddedServer, die_with_parent
from conch.errors import BusUnreachableError, ConchError

log = structlog.get_logger(__name__)

DEATHS = 5
"""Deaths within a minute after which a process is left down."""
MINUTE = 60.0
BACKOFF = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each start after a death."""
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The bandit's matrices are small: a second thread of numpy's would only spin, and take a core from the rest."""
GRACE_SECONDS = 15.0
"""Time that a process has to end in order; then it is killed."""


@dataclass
class Watched:
    """A child and what became of it."""

    name: str
    state: str = "starting"
    """starting, up, restarting, down, ended."""
    restarts: int = 0
    why: str = ""
    pid: int | None = None
    deaths: deque[float] = field(default_factory=deque)

    def died(self, why: str) -> bool:
        """Count a death; whether it may be started again."""
        now = time.monotonic()
        self.why, self.pid = why, None
        self.deaths.append(now)
        while self.deaths and self.deaths[0] < now - MINUTE:
            self.deaths.popleft()
        self.state = "down" if len(self.deaths) >= DEATHS else "restarting"
        return self.state != "down"

    def ended(self, why: str | None) -> None:
        """It ended by itself, or said why it cannot go on."""
        self.state, self.why, self.pid = ("ended", self.why, None) if why is None else ("down", why, None)

    def backoff(self) -> float:
        """Seconds to wait before it is started again."""
        return BACKOFF[min(len(self.deaths), len(BACKOFF)) - 1]


class ChildProcess:
    """One Python child: started, told its spec, heard, restarted when it dies."""

    def __init__(
        self,
        watched: Watched,
        module: str,
        *,
        hear: Callable[[Watched, dict[str, Any]], None],
        changed: Callable[[], None],
        nice: int = 0,
    ) -> None:
        """`nice`: by how much it gives way to the others where the processor is scarce (nice(2), 0..19)."""
        self.watched = watched
        self._nice = nice
        self._module, self._hear, self._changed = module, hear, changed
        self._process: asyncio.subprocess.Process | None = None
        self.fatal: tuple[str, int] | None = None
        """Why it cannot go on, and the run's exit code for that."""
        self._has_spec = self._ending = self._finishing = False

    async def begin(self) -> None:
        """Start it without its spec: it imports meanwhile."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            preexec_fn=partial(_as_child, self._nice),
            env=_ONE_THREAD | os.environ,
            limit=4 * 1024 * 1024,
        )
        self.watched.pid, self._has_spec = self._process.pid, False

    async def live(self, spec: Callable[[], Awaitable[dict[str, Any]]]) -> int:
        """Give it its spec and keep it alive until it ends by itself (0) or can no more. Its exit status.

        Cancelled, it is killed.
        """
        try:
            while True:
                if self._process is None:
                    await self.begin()
                status = await self._once(json.dumps(await spec()))
                if status == 0 or self.fatal is not None or self._ending:
                    self.watched.ended(self.fatal[0] if self.fatal is not None else None)
                    self._changed()
                    return status
                how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
                log.error("process.died", name=self.watched.name, how=how, restarts=self.watched.restarts)
                again = self.watched.died(how)
                self._changed()
                if not again:
                    return status
                await asyncio.sleep(self.watched.backoff())
                self.watched.restarts += 1
        finally:
            self.kill()

    async def _once(self, spec: str) -> int:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        self._has_spec = True
        self._order(spec)
        if self._ending or self._finishing:  # asked for before it could be heard
            self._order("stop" if self._ending else "finish")
        self.watched.state = "up"
        self._changed()
        while line := await process.stdout.readline():
            with contextlib.suppress(ValueError):
                self._heard(json.loads(line))
        status = await process.wait()
        self._process = None
        return status

    def _heard(self, line: dict[str, Any]) -> None:
        if "fatal" in line:
            self.fatal = (str(line["fatal"]), int(line.get("code", 1)))
        else:
            self._hear(self.watched, line)

    def _order(self, line: str) -> None:
        """Write a line to it, the spec before all others; one that is gone hears nothing."""
        if self._has_spec and self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(line.encode() + b"\n")

    def tell(self, order: str, said: Any) -> None:
        """Give it an order with what is said with it. One that is started again learns it from its spec."""
        self._order(f"{order} {json.dumps(said)}")

    def finish(self) -> None:
        """Ask it to end once everything is handled; one that dies meanwhile is started again for that."""
        self._finishing = True
        self._order("finish")

    def end(self) -> None:
        """Ask it to end in order; it is not started again."""
        self._ending = True
        self._order("stop")

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
    """Between fork and exec. Ctrl-C reaches the whole group: it is the supervisor's to pass on, in order."""
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(signal.SIGKILL)


async def keep_server(server: EmbeddedServer, watched: Watched, changed: Callable[[], None]) -> None:
    """Start the server again whenever it dies. Raises BusUnreachableError when it keeps dying."""
    while True:
        status = await server.wait()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        log.error("server.died", how=how)
        again = watched.died(how)
        changed()
        if not again:
            raise BusUnreachableError(f"the nats-server died {DEATHS} times in a minute ({how}): see {server.log_file}")
        await asyncio.sleep(watched.backoff())
        await server.start()
        watched.restarts += 1
        watched.state, watched.pid = "up", server.pid
        changed()


async def ended(tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
    """Wait for tasks to end; after `seconds` cancel them."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            log.warning("process.killed", task=task.get_name())
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def first_fatal(children: Sequence[ChildProcess]) -> ConchError | None:
    """The error that a child reported as the end of the run."""
    for child in children:
        if child.fatal is not None:
            error = ConchError(child.fatal[0])
            error.exit_code = child.fatal[1]
            return error
    return None

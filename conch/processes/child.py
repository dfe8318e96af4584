"""The child's side of a supervised process: told by lines on stdin, telling on stdout, gone with its parent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from conch.bus.access import Access
from conch.config import Settings
from conch.errors import ConchError
from conch.telemetry import configure

FATAL_REPORTED = 70
"""Exit status of a child that has said why it cannot go on."""
HEARTBEAT_SECONDS = 2.0
"""Between two lines by which the supervisor knows that the event loop of a child runs."""
BUS_SECONDS = 600.0
"""Time that a child waits for the bus as it starts. The supervisor has been there before: it says that the bus is away,
and ends the run where its own server does not come back."""
ORDER_LIMIT = 64 * 1024 * 1024
"""Bytes of an order: rules come with the text of their files."""


class ChildProcessLink:
    """What a child process is given, and its line to the supervisor."""

    def __init__(self, spec: dict[str, Any], early: bytes = b"") -> None:
        """`early`: what came behind the spec already."""
        self.spec = spec
        self.settings = Settings.model_validate(spec["settings"])
        self.home = Path(spec["home"])
        self.access = Access(**spec["access"])
        """How the bus is reached."""
        self._orders: dict[str, Callable[[Any], None]] = {}
        self._unread = early
        self._early: dict[str, Any] = {}
        """Orders that came before anybody knew what to do, the newest of each kind."""

    @property
    def strict(self) -> bool:
        """Whether an acknowledged event must be on disk."""
        return self.settings.bus.durability == "strict"

    def on(self, order: str, do: Callable[[Any], None]) -> None:
        """What to do at an order of the supervisor, `stop`, `finish`, `rules`, with what is said with it (None:
        nothing). One that has come already is obeyed at once.
        """
        self._orders[order] = do
        if order in self._early:
            do(self._early.pop(order))

    def report(self, **line: Any) -> None:
        """A line to the supervisor. Never fails: without a supervisor nobody listens."""
        try:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
        except OSError:
            pass

    async def beat(self) -> None:
        """Report that the event loop runs, for ever. A supervisor that does not read is not waited for."""
        while True:
            if select.select([], [sys.stdout], [], 0)[1]:
                self.report(alive=True)
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def obey(self) -> None:
        """Take orders until the supervisor is gone; then this process ends at once: it was killed, so are we."""
        reader = asyncio.StreamReader(limit=ORDER_LIMIT)
        reader.feed_data(self._unread)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            order, _, rest = line.decode().strip().partition(" ")
            said = json.loads(rest) if rest else None
            if (do := self._orders.get(order)) is not None:
                do(said)
            else:
                self._early[order] = said
        os._exit(1)


def run_child(name: str, live: Callable[[ChildProcessLink], Awaitable[None]]) -> None:
    """A child's main: read the spec (one line of JSON), live, end. Errors of ours are reported in one sentence."""
    # A pipe's buffered reader would swallow the orders that follow the spec.
    told = b""
    while b"\n" not in told:
        piece = os.read(0, 64 * 1024)
        if not piece:
            return
        told += piece
    line, _, early = told.partition(b"\n")
    child = ChildProcessLink(json.loads(line), early)
    _collect_seldom()
    configure(child.settings.log, child.home / "logs" / f"{name}.log", process=name)
    try:
        run_loop(_live(child, live))
        child.report(done=True)
    except (ConchError, ExceptionGroup) as raised:
        error = innermost(raised)
        if not isinstance(error, ConchError):
            raise
        child.report(fatal=str(error), code=error.exit_code)
        sys.exit(FATAL_REPORTED)


def _collect_seldom() -> None:
    """What becomes of an event lives short and holds no circle: to look for circles took a quarter of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run`, on uvloop where that is installed (the extra `fast`): a quarter off each event's latency."""
    make: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as make
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main)


def innermost(error: BaseException) -> BaseException:
    """What a TaskGroup failed of."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _live(child: ChildProcessLink, live: Callable[[ChildProcessLink], Awaitable[None]]) -> None:
    beside = [
        asyncio.create_task(child.obey(), name="conch.orders"),
        asyncio.create_task(child.beat(), name="conch.heartbeat"),
    ]
    try:
        await live(child)
    finally:
        for task in beside:
            task.cancel()

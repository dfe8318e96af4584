"""`conch watch` on a real terminal, and where there is none."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from conch.home import Home

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life


PATIENCE = 60.0


@dataclass
class Terminal:
    """A program on a terminal of 100 by 30, as the terminal sees it."""

    process: asyncio.subprocess.Process
    master: int
    slave: int
    before: list[Any]
    said: bytearray = field(default_factory=bytearray)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    open: bool = True

    def close(self) -> None:
        """Nobody shows it any more. Twice is once."""
        if self.open:
            self.open = False
            asyncio.get_running_loop().remove_reader(self.master)
            os.close(self.master)

    def take(self) -> None:
        """What it has written."""
        self.said += os.read(self.master, 65536)
        self.came.set()

    async def shows(self, words: bytes) -> None:
        """Wait for these on the terminal."""
        async with asyncio.timeout(PATIENCE):
            while words not in self.said:
                self.came.clear()
                await self.came.wait()

    async def ended(self) -> int:
        """Its exit status."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    @property
    def sane(self) -> bool:
        """Whether the terminal is as it was: its modes, the first screen, a cursor that is seen, no mouse reported."""
        said = bytes(self.said)
        back = said.rfind(b"\x1b[?1049l") > said.rfind(b"\x1b[?1049h") > -1
        cursor = said.rfind(b"\x1b[?25h") > said.rfind(b"\x1b[?25l")
        mouse = said.rfind(b"\x1b[?1000l") > said.rfind(b"\x1b[?1000h")
        return back and cursor and mouse and termios.tcgetattr(self.slave) == self.before


@asynccontextmanager
async def terminal(home: Home, **environment: str) -> AsyncIterator[Terminal]:
    """`conch watch` on a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "conch.cli.main", "watch", "--home", str(home.path)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=known | {"TERM": "xterm-256color"} | environment,
        start_new_session=True,
    )
    loop = asyncio.get_running_loop()
    made = Terminal(process, master, slave, termios.tcgetattr(slave))
    loop.add_reader(master, made.take)
    try:
        yield made
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        made.close()
        os.close(slave)


@pytest.mark.parametrize("end", ["q", "ctrl+c", "SIGTERM"])
async def test_the_terminal_is_as_it_was(filled: Life, in_progress: InProgress, end: str) -> None:
    """The screen is drawn, and whatever ends it leaves the terminal as it was found, with exit status 0."""
    async with in_progress(), terminal(filled.home) as watched:
        await watched.shows(b"component: last, mean")
        await watched.shows(b"+0.275")
        if end == "SIGTERM":
            watched.process.send_signal(signal.SIGTERM)
        else:
            os.write(watched.master, b"q" if end == "q" else b"\x03")
        status = await watched.ended()
        await asyncio.sleep(0)
        while not watched.sane:  # its last words may still be on their way
            watched.came.clear()
            await asyncio.wait_for(watched.came.wait(), 30)

    assert status == 0
    assert b"Traceback" not in watched.said


@pytest.mark.parametrize("signals", [[], [signal.SIGTERM], [signal.SIGHUP]])
async def test_a_terminal_that_closes_ends_it(
    filled: Life, in_progress: InProgress, signals: list[signal.Signals]
) -> None:
    """Though nobody tells it, and though it still draws; with a signal after that as well."""
    async with in_progress(), terminal(filled.home) as watched:
        await watched.shows(b"+0.275")
        watched.close()
        for number in signals:
            with contextlib.suppress(ProcessLookupError):
                watched.process.send_signal(number)
        assert await watched.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_terminal_that_takes_nothing_holds_up_no_end(
    filled: Life, in_progress: InProgress, number: int
) -> None:
    """Whoever writes to it waits for ever; a signal ends the process all the same."""
    async with in_progress(), terminal(filled.home) as watched:
        await watched.shows(b"+0.275")
        termios.tcflow(watched.slave, termios.TCOOFF)
        watched.process.send_signal(number)
        assert await watched.ended() == 0
